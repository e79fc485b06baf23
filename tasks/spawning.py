"""From `Agent` calls to the children they ask for: pure, so that a repeat after a crash asks for the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swarm.agent.spec import AgentSpec
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.errors import SwarmError, ToolError, UnknownDefinition
from swarm.ids import child_agent_id
from swarm.models import Block
from swarm.models.catalogue import resolve_model
from swarm.tools.agents import DEFAULT_TYPE, agent_tool
from swarm.tools.registry import validate_input

DEPTH_TEXT = "The nesting limit is reached: you cannot start agents. Do the work yourself."


@dataclass
class Plan:
    """Children to make, and calls to refuse, both by tool_use id."""

    children: dict[str, AgentSpec] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def plan_children(calls: Sequence[Block], parent: AgentSpec, catalogue: Catalogue) -> Plan:
    """Decide what each call makes. The depth is checked here and, against the record, in the step that makes them."""
    plan = Plan()
    tool = agent_tool(catalogue.for_spawning())
    for call in calls:
        try:
            if parent.depth >= parent.limits.max_depth:
                raise ToolError(DEPTH_TEXT)
            validate_input(tool, call["input"])
            plan.children[call["id"]] = _child(call, parent, catalogue)
        except SwarmError as error:
            plan.refused[call["id"]] = str(error)
    return plan


def _child(call: Block, parent: AgentSpec, catalogue: Catalogue) -> AgentSpec:
    given = call["input"]
    definition = bounded(_definition(given.get("subagent_type") or DEFAULT_TYPE, catalogue), parent.definition)
    return AgentSpec(
        agent_id=child_agent_id(parent.agent_id, call["id"]),
        job_id=parent.job_id,
        parent_id=parent.agent_id,
        depth=parent.depth + 1,
        definition=definition,
        description=" ".join(given["description"].split())[:200],
        prompt=given["prompt"],
        model=resolve_model(given.get("model") or definition.model, default=parent.model, parent=parent.model),
        workspace=parent.workspace,
        base_url=parent.base_url,
        limits=parent.limits,
    )


def _definition(name: str, catalogue: Catalogue) -> AgentDefinition:
    definition = catalogue.get(name)
    if definition.mode == "primary":
        raise UnknownDefinition(name, [known.name for known in catalogue.for_spawning()])
    return definition


def bounded(definition: AgentDefinition, parent: AgentDefinition) -> AgentDefinition:
    """The child's definition with at most its parent's permission: read-only and plan mode are inherited."""
    read_only = definition.read_only or parent.read_only
    mode = "plan" if parent.permission_mode == "plan" else definition.permission_mode
    return definition.model_copy(update={"read_only": read_only, "permission_mode": mode})
