"""The worker heartbeat: what a worker offers and lacks, as the fleet sees it."""

from __future__ import annotations

import json
import mmap
import socket
import time
from collections import ChainMap
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from swarm.agent.needs import ANY_MODEL, Has, offer
from swarm.core.settings import Settings
from swarm.models.connection import explain_missing
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.callbacks import Callbacks
from swarm.tasks import process
from swarm.tools.outside import find_outside_tools
from swarm.tools.registry import find_offers

ANNOUNCED_SECONDS = 10.0
"""How long a heartbeat is valid."""
_REFUSALS_BYTES = 16_384
_LONGEST_REASON = 1_000
_refusals: mmap.mmap | None = None
"""Refused models as JSON: model, end, reason. Shared with the children of this worker."""
_node, _processes = "", 0
_started_at = time.time()


def share() -> None:
    """Share refused models between the main process and children forked later."""
    global _refusals
    _refusals = mmap.mmap(-1, _REFUSALS_BYTES)


def prepare() -> None:
    """Compute values that stay constant while the worker runs, once for all children."""
    _offers()
    _version()


def has() -> Has:
    """Describe this worker's current offers."""
    settings = process.worker_settings()
    hub = {"hub": settings.hub, "checkouts": str(settings.checkouts_folder())} if settings.hub else {}
    return Has(
        only_job=process.only_job(),
        lacks=_lacks(settings),
        **hub,
        offers=_offers(),
        host=socket.gethostname(),
        node=_node,
        processes=_processes,
        version=_version(),
        provider=settings.provider,
        started_at=_started_at,
        draining=process.draining(),
        broken=find_outside_tools(settings.tools),
    )


def _lacks(settings: Settings) -> dict[str, str]:
    """Unusable models with reasons; `*` stands for all."""
    if missing := explain_missing(settings):
        return {ANY_MODEL: missing}
    return {model: why for model, (until, why) in _read_refusals().items() if until > time.time()}


@cache
def _version() -> str:
    try:
        return version("celery-swarm")
    except PackageNotFoundError:
        return "0+unknown"


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
    return dict(sorted(ChainMap(offers, host, {offer("tag", tag): "" for tag in tags}, *map(dict, added)).items()))


def note_refusal(model: str, why: str) -> None:
    """Record that a model refused this worker, which then leaves its agents to others."""
    if _refusals is not None:
        until = time.time() + process.worker_settings().recheck_seconds
        known = {name: entry for name, entry in _read_refusals().items() if entry[0] > time.time()}
        document = json.dumps({**known, model: [until, why[:_LONGEST_REASON]]}).encode()
        if len(document) <= _REFUSALS_BYTES:
            _refusals[:] = document.ljust(_REFUSALS_BYTES)
    announce()


def announce() -> None:
    """Send this worker's heartbeat to the fleet."""
    offered = has()
    process.note_lacks(bool(offered.lacks))
    process.runtime().store.fleet.announce(process.worker_name(), offered, ANNOUNCED_SECONDS)
    if brokers := process.runtime().settings.brokers:
        Callbacks(process.runtime().store.keyspace).know(brokers)


def _read_refusals() -> dict[str, tuple[float, str]]:
    try:
        return dict(json.loads(_refusals[:])) if _refusals is not None else {}
    except ValueError:  # still empty, or a sibling is writing
        return {}
