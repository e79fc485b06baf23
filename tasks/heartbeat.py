"""The worker heartbeat: what a worker offers and lacks, as the fleet sees it."""

from __future__ import annotations

import socket
import time
from collections import ChainMap
from functools import cache

from swarm.agent.needs import ANY_MODEL, Has, formats, offer
from swarm.core.formats import FIRST
from swarm.core.release import FORMAT, VERSION
from swarm.core.settings import Settings
from swarm.models.connection import explain_missing
from swarm.models.vendors import keyed
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.callbacks import Callbacks
from swarm.tasks import host, process
from swarm.tasks.notes import Reasons
from swarm.tools.outside import find_outside_tools
from swarm.tools.registry import find_offers

ANNOUNCED_SECONDS = 10.0
"""How long a heartbeat is valid."""
_refusals: Reasons | None = None
"""Refused models. Shared with the children of this worker."""
_node, _processes = "", 0
_started_at = time.time()


def share() -> None:
    """Share refused models and the host's state between the main process and children forked later."""
    global _refusals
    _refusals = Reasons(16_384)
    host.share(process.worker_settings().recheck_seconds)


def prepare() -> None:
    """Compute values that stay constant while the worker runs, once for all children."""
    _offers()
    host.prepare(process.worker_settings())


def has() -> Has:
    """Describe this worker's current offers."""
    settings = process.worker_settings()
    return Has(
        only_job=process.only_job(),
        lacks=_lacks(settings),
        hub=settings.hub or "",
        checkouts=str(settings.checkouts_folder()),
        sick=host.explain_sickness(),
        offers=_offers(),
        host=socket.gethostname(),
        node=_node,
        processes=_processes,
        version=VERSION,
        provider=settings.provider,
        started_at=_started_at,
        draining=process.draining(),
        broken=find_outside_tools(settings.tools),
    )


def _lacks(settings: Settings) -> dict[str, str]:
    """Unusable models with reasons; `*` stands for all."""
    if missing := explain_missing(settings):
        return {ANY_MODEL: missing}
    return {} if _refusals is None else _refusals.current()


def introduce(node: str, processes: int) -> None:
    """Set Celery's name of this worker, and how many agents it can run at once.

    Called in the main process, before the first heartbeat.
    """
    global _node, _processes
    _node, _processes = node, processes


def names() -> tuple[str, ...]:
    """This worker's names: its host, its own name, and Celery's."""
    return socket.gethostname(), process.worker_name(), _node


@cache
def _offers() -> dict[str, str]:
    """Offers that not every worker has."""
    settings = process.worker_settings()
    tags = settings.tag_names()
    tools = find_offers(tags, sandboxed=isinstance(choose_backend(settings.sandbox), Backend))
    offers = {offer("tool", name): version for name, version in tools.items()}
    host = {offer("host", socket.gethostname()): ""}
    added = [one.offers() for one in process.runtime().additions]
    vendors = {offer("vendor", name) for name in keyed(settings.vendors)}
    named = dict.fromkeys({offer("tag", tag) for tag in tags} | vendors | formats(FIRST, FORMAT), "")
    return dict(sorted(ChainMap(offers, host, named, *map(dict, added)).items()))


def note_refusal(model: str, why: str) -> None:
    """Record that a model refused this worker, which then leaves its agents to others."""
    if _refusals is not None:
        _refusals.note(model, why, process.worker_settings().recheck_seconds)
    announce()


def note_fault(name: str, why: str) -> None:
    """Record a fault of this worker's host, which then leaves all agents to others."""
    host.note_fault(name, why)
    announce()


def explain_leaving() -> str:
    """Why the agents of this worker continue elsewhere; empty if they stay."""
    return host.explain_sickness() or ("its worker is draining" if process.draining() else "")


def announce() -> None:
    """Send this worker's heartbeat to the fleet."""
    offered = has()
    process.note_lacks(bool(offered.lacks or offered.sick))
    told, before = offered.model_copy(update={"host_state": host.state()}), time.time()
    redis_now = process.runtime().store.fleet.announce(process.worker_name(), told, ANNOUNCED_SECONDS)
    host.note_clock(redis_now, before, time.time())
    if brokers := process.runtime().settings.brokers:
        Callbacks(process.runtime().store.keyspace).know(brokers)
