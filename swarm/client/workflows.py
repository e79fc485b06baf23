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
from swarm.workflows.reuse import Reuse, RunPlan, calls_in, plan_run, reuse_of
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
    budget_usd: float | None = None,
    definition: AgentDefinition | None = None,
) -> Continuing:
    """Prepare the job that continues an ended workflow with today's program, or with that of `definition`.

    `max_agents` and `budget_usd` replace the old limits. Raises `ConfigurationError` if the job is no workflow or is still at work.
    """
    spec = swarm.store.agents.spec(view.root_id)
    if spec.definition.workflow is None:
        raise ConfigurationError(f"{view.id} is no workflow; `swarm send {view.id} TEXT` continues its first agent")
    if not view.ended:
        raise ConfigurationError(f"{view.id} is still at work; `swarm cancel {view.id}` ends it and keeps its results")
    earlier = _read_earlier(swarm, view, retry_failed=retry_failed)
    prepared = prepare_order(_order_again(spec, max_agents, budget_usd), swarm.settings, ceiling=swarm.ceiling)
    if definition is not None:
        prepared = replace(prepared, spec=prepared.spec.model_copy(update={"definition": definition}))
    plan = plan_run(prepared.spec.definition, spec.prompt, earlier.reuse)
    prepared = replace(prepared, earlier={"reuse": earlier.reuse.model_dump_json()})
    return Continuing(prepared, plan, earlier.paid_usd, expect_cost(plan.calls, earlier.costs))


class _Earlier(NamedTuple):
    """The results and costs of a workflow and of those below it."""

    reuse: Reuse
    costs: dict[str, float]
    """The known cost of each call's agent and all below it, without what is reused there, by the id of the call."""
    paid_usd: float
    """The known cost of all agents whose results are reused."""
    has_failed: bool
    """Whether a call of it, or of one below it, has failed."""


def _read_earlier(swarm: Swarm, view: JobView, *, retry_failed: bool) -> _Earlier:
    """Read the results of a job's workflows. What it was given of an earlier run and did not come to is among them."""
    digest = swarm.store.jobs.carried(view.id).get("reuse")
    text = swarm.store.jobs.document(digest) if digest else None
    given = None if text is None else Reuse.model_validate_json(text)
    kinds: dict[str, bool] = {}

    def read(agent_id: str, given: Reuse | None) -> _Earlier:
        history = swarm.store.journals.history(agent_id)
        assert history.spec is not None, "it has begun"
        asked, ended = calls_in(history.lived)
        found = zip(history.spawned, swarm.store.agents.find(list(history.spawned.values())), strict=True)
        agents = {call_id: one for call_id, one in found if one is not None}
        below = {}
        for call_id, agent in agents.items():
            if agent.definition not in kinds:
                kinds[agent.definition] = swarm.store.agents.spec(agent.id).definition.workflow is not None
            if not kinds[agent.definition] or (call_id in ended and not retry_failed) or not agent.length:
                continue
            inner = read(agent.id, given.below.get(call_id) if given else None)
            if ended.get(call_id, True) or inner.has_failed:
                below[call_id] = inner
        reuse = reuse_of(
            view.id,
            history.lived,
            history.spec.limits,
            retry_failed=retry_failed,
            below={call_id: one.reuse for call_id, one in below.items()},
        )
        costs = {call_id: one.subtree_cost_usd or 0.0 for call_id, one in agents.items()}
        costs |= {call_id: max(0.0, costs[call_id] - one.paid_usd) for call_id, one in below.items()}
        kept = {one.tool_use_id for one in reuse.results}
        paid = sum(costs[call_id] for call_id in agents if call_id in kept and call_id not in below)
        failed = any(ended.values()) or any(one.has_failed for one in below.values())
        if given is not None:
            reuse = reuse.with_rest_of(given, asked, ended)
        return _Earlier(reuse, costs, paid + sum(one.paid_usd for one in below.values()), failed)

    return read(view.root_id, given)


def expect_cost(calls: Sequence[TriedCall], costs: Mapping[str, float]) -> float | None:
    """Estimate the cost of calls: each costs as much as before, or as the earlier ones on average."""
    if not costs:
        return None
    mean = sum(costs.values()) / len(costs)
    return sum(costs.get(call.id, mean) for call in calls if call.tool == SPAWN)


def _order_again(spec: AgentSpec, max_agents: int | None, budget_usd: float | None) -> Order:
    given = {"max_agents": max_agents, "budget_usd": budget_usd}
    limits = spec.limits.model_copy(update={name: value for name, value in given.items() if value is not None})
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
