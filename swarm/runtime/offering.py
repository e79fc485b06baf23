"""Which tools an agent is given when it starts: what there is, through the filter, less what is of no use to it.

An agent that works for itself alone should not read about others in every request. So an agent whose definition lists its tools gets
of the shared ones those that are listed; of the others, teammates and a first agent that can start agents get the board, and
everybody gets the scratchpad in a job that can have several agents. A teammate gets board, scratchpad and messages whatever its
definition lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from swarm.agent.prompts import system_prompt
from swarm.agent.spec import AgentSpec
from swarm.capabilities.skills.model import Skill
from swarm.capabilities.skills.skill_tool import naming_skills
from swarm.core.plain import clean
from swarm.definitions.model import AgentDefinition
from swarm.definitions.tools import PROGRAM, PROGRAM_AGAIN, Kind, ToolRow, all_rows
from swarm.permissions.filter import Situation, filter_tools
from swarm.runtime.servers import Servers
from swarm.tools import Tool
from swarm.tools.agents import naming_types
from swarm.tools.registry import can_offer, offered_tools

_KEPT = 64


class Opening(NamedTuple):
    """What all requests of an agent begin with. Nobody changes it: agents that have the same share it."""

    system: str
    tools: list[dict[str, Any]]


_openings: dict[tuple[Any, ...], Opening] = {}


def opening_of(
    spec: AgentSpec,
    definitions: str,
    types: Callable[[], Sequence[AgentDefinition]],
    *,
    sandboxed: bool,
    person_there: bool,
    tags: Sequence[str] = (),
    skills: Sequence[Skill] = (),
    servers: Servers | None = None,
) -> Opening:
    """The system prompt and the tools of an agent, made once in a process for all that are alike; `definitions` names its job's."""
    served = () if servers is None else servers.open()
    key = (
        definitions,
        tuple((one.name, one.digest) for one in skills),
        spec.definition.model_dump_json(),
        (spec.depth, spec.limits.max_depth, spec.parent_id is None),
        (spec.background, spec.teammate, spec.mode, spec.after_plan),
        (sandboxed, person_there, *tags),
        (json.dumps([tool.schema() for tool in served]), "" if servers is None else servers.introduce()),
    )
    known = _openings.get(key)
    if known is None:
        here = {"sandboxed": sandboxed, "person_there": person_there}
        tools = choose_tools(spec, types(), **here, tags=tags, skills=skills, served=served)
        prompt = system_prompt(spec, {tool.name for tool in tools})
        if servers is not None:
            tools = servers.add_tools_about(tools)
            prompt = "\n\n".join(filter(None, [prompt, servers.introduce()]))
        known = Opening(*clean((prompt, [tool.schema() for tool in tools])))
        if definitions:
            if len(_openings) >= _KEPT:
                _openings.clear()
            _openings[key] = known
    return known


def choose_tools(
    spec: AgentSpec,
    types: Sequence[AgentDefinition],
    *,
    sandboxed: bool,
    person_there: bool,
    tags: Sequence[str] | None = None,
    skills: Sequence[Skill] = (),
    served: Sequence[Tool] = (),
) -> list[Tool]:
    """The tools of an agent, on any worker or on one with these tags.

    `types` are those that it can start, `skills` those that it may load, `served` the tools of MCP servers, `person_there` says that
    questions are answered.
    """
    here = (tool for tool in offered_tools() if tags is None or can_offer(tool.row, tags, sandboxed=sandboxed))
    available = {tool.name: tool for tool in (*here, *served)}
    if spec.definition.command:
        return [available[PROGRAM_AGAIN if spec.definition.restart else PROGRAM]]
    situation = Situation(
        definition=with_team_tools(spec),
        depth=spec.depth,
        max_depth=spec.limits.max_depth,
        is_root=spec.parent_id is None,
        background=spec.background,
        mode=spec.mode,
        sandbox=sandboxed,
    )
    tools = [available[name] for name in filter_tools(list(available), situation)]
    spawns = any(tool.row.kind is Kind.SPAWN for tool in tools)
    plans = any(tool.row.sets_mode for tool in tools) and _may_plan(spec, person_there=person_there)
    return [
        _name_choices(tool, spec, types, skills)
        for tool in tools
        if is_of_use(tool.row, spec, spawns=spawns, person_there=person_there, skilled=bool(skills), plans=plans)
    ]


def _name_choices(tool: Tool, spec: AgentSpec, types: Sequence[AgentDefinition], skills: Sequence[Skill]) -> Tool:
    """The tool with what there is to choose from in this job."""
    if tool.row.kind is Kind.SPAWN:
        return naming_types(tool, types, coordinated=bool(spec.definition.coordination))
    return naming_skills(tool, skills) if tool.row.needs == "skills" else tool


def with_team_tools(spec: AgentSpec) -> AgentDefinition:
    """The agent's definition; a teammate's lists, if it lists tools, also those that it needs as one."""
    definition = spec.definition
    if not spec.teammate or definition.tools is None:
        return definition
    of_teammates = [row.name for row in all_rows() if row.of_teammates]
    return definition.model_copy(update={"tools": [*definition.tools, *of_teammates]})


def _may_plan(spec: AgentSpec, *, person_there: bool) -> bool:
    return spec.parent_id is None and person_there and spec.mode != "plan" and not spec.definition.read_only


def is_of_use(
    row: ToolRow, spec: AgentSpec, *, spawns: bool, person_there: bool, skilled: bool = False, plans: bool = False
) -> bool:
    """Whether the agent has a use for a tool that it may have."""
    is_root, several = spec.parent_id is None, spec.limits.max_depth > 0
    chosen = (spec.definition.tools is not None or spec.teammate) and not row.root_only
    match row.needs:
        case "children":
            return spawns
        case "several":
            return chosen or several
        case "lead":
            return chosen or (is_root and several)
        case "first":
            return chosen or is_root
        case "plan":
            return spec.after_plan is not None or plans
        case "planner":
            return plans
        case "person":
            return is_root and person_there
        case "skills":
            return skilled
        case "servers":
            return False  # they come with what servers offer
        case "program":
            return bool(spec.definition.command)
    return True
