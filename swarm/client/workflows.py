"""Read a workflow's calls, and continue an ended one as a new job that reuses its results."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from swarm.agent.entries import Advanced, ToolFinished
from swarm.agent.spec import AgentSpec
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import JobView
from swarm.definitions.model import AgentDefinition
from swarm.workflows.reuse import RunPlan, plan_run, reuse_of


class Continuing(NamedTuple):
    """A prepared job that continues a workflow, and the plan of its run."""

    prepared: PreparedJob
    plan: RunPlan


def prepare_continuing(
    swarm: Swarm,
    view: JobView,
    *,
    retry_failed: bool = False,
    max_agents: int | None = None,
    definition: AgentDefinition | None = None,
) -> Continuing:
    """Prepare the job that continues an ended workflow with today's program, or with that of `definition`.

    `max_agents` replaces the old limit. Raises `ConfigurationError` if the job is no workflow or is still at work.
    """
    spec = swarm.store.agents.spec(view.root_id)
    if spec.definition.workflow is None:
        raise ConfigurationError(f"{view.id} is no workflow; `swarm send {view.id} TEXT` continues its first agent")
    if not view.ended:
        raise ConfigurationError(f"{view.id} is still at work; `swarm cancel {view.id}` ends it and keeps its results")
    lived = swarm.store.journals.history(view.root_id).lived
    reuse = reuse_of(view.id, lived, spec.limits, retry_failed=retry_failed)
    prepared = prepare_order(_order_again(spec, max_agents), swarm.settings, ceiling=swarm.ceiling)
    if definition is not None:
        prepared = replace(prepared, spec=prepared.spec.model_copy(update={"definition": definition}))
    plan = plan_run(prepared.spec.definition, spec.prompt, reuse)
    return Continuing(replace(prepared, earlier={"reuse": reuse.model_dump_json()}), plan)


def _order_again(spec: AgentSpec, max_agents: int | None) -> Order:
    limits = spec.limits if max_agents is None else spec.limits.model_copy(update={"max_agents": max_agents})
    return Order(
        spec.prompt,
        agent=spec.definition.name,
        workspace=spec.workspace,
        model=spec.model,
        base_url=spec.base_url,
        limits=limits,
        mode=spec.mode,
        network=spec.network,
    )


class WorkflowCall(NamedTuple):
    """One call of a workflow."""

    phase: str
    tool: str
    label: str
    """The agent's purpose, or the call's first parameter."""
    state: str
    """`at work`, `done`, `failed`, or `given up` by the program."""
    agent: str
    """Id of the agent, if the call started one."""


def read_calls(swarm: Swarm, agent_id: str) -> list[WorkflowCall]:
    """Return a workflow's calls, in order. Raises `ConfigurationError` for another agent."""
    if swarm.store.agents.spec(agent_id).definition.workflow is None:
        raise ConfigurationError(f"{agent_id} is no workflow; `swarm transcript` shows other agents")
    history = swarm.store.journals.history(agent_id)
    results = {one.tool_use_id: one for one in history.lived if isinstance(one, ToolFinished)}
    dropped = {one for entry in history.lived if isinstance(entry, Advanced) for one in entry.dropped}
    rows, phase = [], ""
    for entry in history.lived:
        if not isinstance(entry, Advanced):
            continue
        phase = next((note.text for note in reversed(entry.notes) if note.kind == "phase"), phase)
        for call in entry.calls:
            done, given = results.get(call["id"]), call["input"]
            state = "at work" if done is None else "failed" if done.is_error else "done"
            state = "given up" if call["id"] in dropped else state
            label = str(given.get("description") or next(iter(given.values()), ""))
            rows.append(WorkflowCall(phase, call["name"], label, state, history.spawned.get(call["id"], "")))
    return rows
