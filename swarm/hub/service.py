"""A hub from start to end: its requirements and its tasks."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import socket

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from swarm.core.errors import ConfigurationError
from swarm.core.log import begin_logging
from swarm.core.settings import Settings, http_address
from swarm.hub.maintenance import EVERY_SECONDS, YOUNG_SECONDS, HubMaintenance, Jobs
from swarm.hub.repositories import RepositoryStore
from swarm.hub.server import make_folder, make_server
from swarm.store.connection import connect
from swarm.store.store import Store

_GRACE_SECONDS = 10.0
"""Seconds that running requests get to finish at shutdown."""
_MARK = "redis-mark"


def serve(settings: Settings, folder: Path | None, host: str, port: int, *, told: Callable[[str], None]) -> None:
    """Serve until a signal; `told` gets the address once requests are accepted. Raises `ConfigurationError`."""
    if not settings.hub_token:
        raise ConfigurationError(
            "SWARM_HUB_TOKEN is not set: workers need it to push and fetch. `deploy/make-secrets` makes one"
        )
    begin_logging(settings.log_format)
    try:
        where = make_folder(folder or settings.state_folder() / "hub")
        sockets = bind_sockets(port, host)
    except OSError as error:
        raise ConfigurationError(
            f"the hub cannot start: {error.strerror or error}; choose others with --folder, --host and --port"
        ) from error
    asyncio.run(_serve(settings, where, sockets, told))


async def _serve(settings: Settings, folder: Path, sockets: list[socket], told: Callable[[str], None]) -> None:
    repositories = RepositoryStore(folder, job_bytes=settings.hub_job_mib << 20, all_bytes=settings.hub_mib << 20)
    await asyncio.to_thread(repositories.remove_leftovers)
    assert settings.hub_token
    server = make_server(repositories, settings.hub_token)
    server.add_sockets(sockets)
    upkeep = asyncio.create_task(_make_upkeep(settings, repositories).run(EVERY_SECONDS))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    told(http_address(*sockets[0].getsockname()[:2]))
    await stop.wait()
    upkeep.cancel()
    await _end(server)


def _make_upkeep(settings: Settings, repositories: RepositoryStore) -> HubMaintenance:
    jobs = None
    if settings.redis_url is not None:
        jobs = Jobs(Store(connect(settings), settings.key_prefix), repositories.folder / _MARK)
    return HubMaintenance(repositories, jobs, retention_seconds=settings.retention_seconds, young_seconds=YOUNG_SECONDS)


async def _end(server: HTTPServer) -> None:
    server.stop()
    with suppress(TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), _GRACE_SECONDS)
