"""Continue an ended workflow as a new job that reuses the old one's results."""

from __future__ import annotations

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

    `max_agents` replaces the old limit. Raises `ConfigurationError` if the job is no workflow, is still at work or was a rehearsal.
    """
    spec = swarm.store.agents.spec(view.root_id)
    if spec.definition.workflow is None:
        raise ConfigurationError(f"{view.id} is no workflow; `swarm send {view.id} TEXT` continues its first agent")
    if not view.ended:
        raise ConfigurationError(f"{view.id} is still at work; `swarm cancel {view.id}` ends it and keeps its results")
    lived = swarm.store.journals.history(view.root_id).lived
    reuse = reuse_of(view.id, lived, retry_failed=retry_failed)
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
