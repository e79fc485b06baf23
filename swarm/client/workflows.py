"""Continue an ended workflow as a new job that reuses its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from swarm.agent.spec import AgentSpec
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import JobView
from swarm.definitions.model import AgentDefinition
from swarm.definitions.tools import SPAWN
from swarm.workflows.reuse import RunPlan, plan_run, reuse_of
from swarm.workflows.trial import TriedCall


class Continuing(NamedTuple):
    """A prepared job that continues a workflow, and the plan of its run."""

    prepared: PreparedJob
    plan: RunPlan
    paid_usd: float
    """Known cost of the agents whose results are reused."""
    expected_usd: float | None
    """Expected cost of the calls that it begins with, by that of the earlier agents; None if unknown."""


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
    history = swarm.store.journals.history(view.root_id)
    reuse = reuse_of(view.id, history.lived, spec.limits, retry_failed=retry_failed)
    prepared = prepare_order(_order_again(spec, max_agents), swarm.settings, ceiling=swarm.ceiling)
    if definition is not None:
        prepared = replace(prepared, spec=prepared.spec.model_copy(update={"definition": definition}))
    plan = plan_run(prepared.spec.definition, spec.prompt, reuse)
    costs = _read_costs(swarm, history.spawned)
    paid = sum(costs.get(one.tool_use_id, 0.0) for one in reuse.results)
    prepared = replace(prepared, earlier={"reuse": reuse.model_dump_json()})
    return Continuing(prepared, plan, paid, expect_cost(plan.calls, costs))


def _read_costs(swarm: Swarm, spawned: Mapping[str, str]) -> dict[str, float]:
    """Read the known cost of each call's agent and all below it."""
    found = zip(spawned, swarm.store.agents.find(list(spawned.values())), strict=True)
    return {call_id: one.subtree_cost_usd or 0.0 for call_id, one in found if one is not None}


def expect_cost(calls: Sequence[TriedCall], costs: Mapping[str, float]) -> float | None:
    """Estimate the cost of calls: each costs as much as before, or as the earlier ones on average."""
    if not costs:
        return None
    mean = sum(costs.values()) / len(costs)
    return sum(costs.get(call.id, mean) for call in calls if call.tool == SPAWN)


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
