"""Reads of a workflow: its phases and calls, with their states, costs and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from swarm.agent.entries import Advanced, ToolFinished
from swarm.client.operations import AgentId, Invocation
from swarm.client.reads import READS
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError


class WorkflowCall(BaseModel):
    """One call of a workflow."""

    phase: str
    tool: str
    label: str
    """The agent's purpose, or the call's first parameter."""
    state: Literal["at work", "done", "failed", "given up"]
    agent: str = ""
    """Id of the agent, if the call started one."""
    cost_usd: float | None = 0.0
    """Cost of the agent and all below it; None if no price is known."""
    value: str | None = None
    """The result, or the reason of a failure; only on request."""


class Phase(BaseModel):
    """A phase of a workflow."""

    title: str
    calls: int = 0
    done: int = 0
    failed: int = 0
    cost_usd: float = 0.0
    """Known cost of its agents and all below them."""


class WorkflowCalls(BaseModel):
    """A workflow's place, phases and calls."""

    now: str
    """The activity: the phase, the progress and the line of the source that the program waits at."""
    phases: list[Phase]
    calls: list[WorkflowCall]


@READS.get("/agents/{agent}/calls")
def get_workflow_calls(
    call: Invocation,
    agent: AgentId,
    values: Annotated[bool, Field(description="Whether to include each call's result.")] = False,
) -> WorkflowCalls:
    """A workflow's phases and calls, in order, with their states and costs."""
    return read_calls(call.swarm, agent, values=values)


def read_calls(swarm: Swarm, agent_id: str, *, values: bool = False) -> WorkflowCalls:
    """Return a workflow's calls, in order. Raises `ConfigurationError` for another agent."""
    if swarm.store.agents.spec(agent_id).definition.workflow is None:
        raise ConfigurationError(f"{agent_id} is no workflow; `swarm transcript` shows other agents")
    history = swarm.store.journals.history(agent_id)
    results = {one.tool_use_id: one for one in history.lived if isinstance(one, ToolFinished)}
    moves = [entry for entry in history.lived if isinstance(entry, Advanced)]
    dropped = {one for entry in moves for one in entry.dropped}
    costs = _read_costs(swarm, history.spawned)
    calls = []
    for one in (one for entry in moves for one in entry.calls):
        done, given = results.get(one["id"]), one["input"]
        calls.append(
            WorkflowCall(
                phase=one.get("phase", ""),
                tool=one["name"],
                label=str(given.get("description") or next(iter(given.values()), "")),
                state="given up" if one["id"] in dropped else _state_of(done),
                agent=history.spawned.get(one["id"], ""),
                cost_usd=costs.get(one["id"], 0.0),
                value=done.text if values and done is not None else None,
            )
        )
    now = swarm.agent(agent_id)
    return WorkflowCalls(now=now.state if now.ended else now.activity, phases=_sum_up(calls), calls=calls)


def _read_costs(swarm: Swarm, spawned: Mapping[str, str]) -> dict[str, float | None]:
    found = zip(spawned, swarm.store.agents.find(list(spawned.values())), strict=True)
    return {call_id: one.subtree_cost_usd for call_id, one in found if one is not None}


def _state_of(done: ToolFinished | None) -> Literal["at work", "done", "failed"]:
    return "at work" if done is None else "failed" if done.is_error else "done"


def _sum_up(calls: Sequence[WorkflowCall]) -> list[Phase]:
    """Sum up the phases, in the order of their first calls."""
    phases: dict[str, Phase] = {}
    for call in calls:
        phase = phases.setdefault(call.phase, Phase(title=call.phase))
        phase.calls += 1
        phase.done += call.state == "done"
        phase.failed += call.state == "failed"
        phase.cost_usd += call.cost_usd or 0.0
    return list(phases.values())
