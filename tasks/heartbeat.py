"""What a worker has and lacks, and how the fleet is told."""

from __future__ import annotations

import json
import mmap
import socket
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from swarm.agent.needs import ANY_MODEL, SERVERS, Has, offer
from swarm.capabilities.mcp.broker_client import can_start_broker
from swarm.capabilities.webhooks.addresses import names_of
from swarm.capabilities.webhooks.notices import Webhooks
from swarm.core.settings import Settings
from swarm.definitions.mcp.servers import server_keys
from swarm.local.records import read_job
from swarm.models.connection import explain_missing
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.callbacks import Callbacks
from swarm.tasks import process
from swarm.tools.outside import find_outside_tools
from swarm.tools.registry import find_offers

ANNOUNCED_SECONDS = 10.0
"""For how long what a worker says of itself holds."""
_REFUSALS_BYTES = 16_384
_LONGEST_REASON = 1_000
_refusals: mmap.mmap | None = None
"""JSON: by model, until when this worker does not ask for it any more, and why. Its children and it share this."""
_node, _processes = "", 0
_started_at = time.time()


def share() -> None:
    """Have the children that are forked from now on tell their main process which models were refused."""
    global _refusals
    _refusals = mmap.mmap(-1, _REFUSALS_BYTES)


def prepare() -> None:
    """Find out, once for all children, what does not change while the worker runs."""
    _offers()
    _version()


def has() -> Has:
    """What this worker has now."""
    settings = process.worker_settings()
    only_job = settings.only_job if settings.job_file is None else read_job(settings.job_file)
    hub = {"hub": settings.hub, "checkouts": str(settings.checkouts_folder())} if settings.hub else {}
    return Has(
        only_job=only_job,
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
    """Models that cannot be used now, and why; `*`: all of them."""
    if missing := explain_missing(settings):
        return {ANY_MODEL: missing}
    return {model: why for model, (until, why) in _read_refusals().items() if until > time.time()}


def serves_all() -> bool:
    """Whether there is no agent that wants nothing special and that this worker could not serve, as far as it knows."""
    settings = process.worker_settings()
    return settings.only_job is None and settings.job_file is None and not _lacks(settings)


@cache
def _version() -> str:
    try:
        return version("celery-swarm")
    except PackageNotFoundError:
        return "0+unknown"


def introduce(node: str, processes: int) -> None:
    """Celery's name of this worker, and how many agents it can run at once. Called in the main process, before it tells what it has."""
    global _node, _processes
    _node, _processes = node, processes


def names() -> tuple[str, ...]:
    """What this worker goes by: its host, its own name, and Celery's."""
    return socket.gethostname(), process.worker_name(), _node


@cache
def _offers() -> dict[str, str]:
    """What of this worker not every worker has; a capability that is at home on some only adds its own here."""
    settings = process.worker_settings()
    tags = settings.tag_names()
    tools = find_offers(tags, sandboxed=isinstance(choose_backend(settings.sandbox), Backend))
    offers = {offer("tool", name): version for name, version in tools.items()}
    host = {offer("host", socket.gethostname()): ""}
    servers = {offer("mcp", key): "" for key in (SERVERS, *server_keys(settings))} if can_start_broker() else {}
    return dict(sorted({**offers, **host, **servers, **{offer("tag", tag): "" for tag in tags}}.items()))


def note_refusal(model: str, why: str) -> None:
    """This worker was refused a model: for a while it leaves agents that need it to others."""
    if _refusals is not None:
        until = time.time() + process.worker_settings().recheck_seconds
        known = {name: entry for name, entry in _read_refusals().items() if entry[0] > time.time()}
        document = json.dumps({**known, model: [until, why[:_LONGEST_REASON]]}).encode()
        if len(document) <= _REFUSALS_BYTES:
            _refusals[:] = document.ljust(_REFUSALS_BYTES)
    announce()


def announce() -> None:
    """Tell the fleet what this worker has."""
    process.runtime().store.fleet.announce(process.worker_name(), has(), ANNOUNCED_SECONDS)
    if brokers := process.runtime().settings.brokers:
        Callbacks(process.runtime().store.keyspace).know(brokers)
    if names := names_of(process.runtime().settings):
        Webhooks(process.runtime().store.keyspace).know(names)


def _read_refusals() -> dict[str, tuple[float, str]]:
    try:
        return dict(json.loads(_refusals[:])) if _refusals is not None else {}
    except ValueError:  # empty still, or a sibling writes just now
        return {}
