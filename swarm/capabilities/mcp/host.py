"""A host's broker, for its workers and commands.

A worker imports nothing of the protocol: it uses its host's broker, which the first call starts. So does `probe`: it starts a server as a
worker would for an agent, reads its offer, and ends it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from swarm.agent.needs import SERVERS, offer
from swarm.capabilities.mcp.broker_client import BrokerClient, BrokerGone
from swarm.capabilities.mcp.launch import Confining, FindLogin, Profile, describe_launch
from swarm.capabilities.mcp.pins import Pin, make_pin
from swarm.core.errors import ConfigurationError, ToolError, UnknownAgent
from swarm.core.settings import Settings
from swarm.definitions.mcp.lacks import NO_EXTRA, has_extra
from swarm.definitions.mcp.servers import Server, server_keys
from swarm.definitions.plugins.enabled import load_plugins
from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend
from swarm.runtime.additions import Duty, WorkerHost, WorkerPart
from swarm.runtime.plugins import place_plugins
from swarm.runtime.scratch import broker_folder, confine
from swarm.store.store import Store
from swarm.tools import Hold
from swarm.workspace.private import make_private_folder

ORPHAN_SECONDS = 20.0
_lines: dict[tuple[int, Path], BrokerClient] = {}
"""Clients by process id and folder."""


def line_of(settings: Settings) -> BrokerClient:
    """Return this process's client of its host's broker. Raises `ConfigurationError` if another user owns the folder."""
    folder = broker_folder(settings)
    key = (os.getpid(), folder)
    if key not in _lines:
        make_private_folder(folder, remedy="set TMPDIR to another folder")
        _lines[key] = BrokerClient(folder, settings.mcp_idle_seconds)
    return _lines[key]


def end_servers(settings: Settings, **of: str) -> None:
    """End a `job`'s servers on this host: all, those in one `workspace`, or the private ones of an `owner`.

    Starts no broker.
    """
    if (broker_folder(settings) / "socket").exists():
        line_of(settings).tell({"do": "end", **of})


class ServersOfWorker(WorkerPart):
    """A worker's offer to run MCP servers, and its care for servers that a dead worker left."""

    def offers(self) -> Mapping[str, str]:
        """The servers that this worker can run."""
        keys = (SERVERS, *server_keys(self.settings)) if has_extra() else ()
        return {offer("mcp", key): "" for key in keys}

    def duties(self, host: WorkerHost) -> Iterable[Duty]:
        """End servers without a job."""
        return [Duty("servers", ORPHAN_SECONDS, partial(end_orphans, self.settings, host.store))]


def end_orphans(settings: Settings, store: Store) -> None:
    """End the servers of jobs that have ended."""
    if not (broker_folder(settings) / "socket").exists():
        return
    found = line_of(settings).tell({"do": "state"}).get("servers", ())
    for job_id in {one["job"] for one in found}:
        if _has_ended(store, job_id):
            end_servers(settings, job=job_id)


def _has_ended(store: Store, job_id: str) -> bool:
    try:
        return store.jobs.get(job_id).ended
    except UnknownAgent:
        return True


def probe(server: Server, workspace: Path, settings: Settings, find_login: FindLogin, *, network: bool) -> Pin:
    """Start a server and return its offer.

    A process has the sandbox of agents' commands in the workspace, and the network only with `network`. Raises `ToolError` or
    `MissingVariables` if the server cannot be used; `ConfigurationError` if the MCP extra is not installed.
    """
    if not has_extra():
        raise ConfigurationError(NO_EXTRA)
    profile = Profile(f"check-{secrets.token_hex(6)}", "", str(workspace), (), read_only=False, network=network)
    line, allowed = line_of(settings), settings.mcp_variables()
    named = server.model_dump_json()
    plugins = place_plugins([one for one in load_plugins(workspace).all if one.place in named], settings)
    confining, folder = _confining(workspace, settings, plugins), str(plugins[0].parent) if plugins else ""
    no_network = settings.network == "off"
    launch = describe_launch(server, profile, confining, line.folder, allowed, no_network, find_login, folder)
    try:
        event = line.ask({"do": "start", "key": profile.key_for(server), "launch": launch})
    except BrokerGone as gone:
        raise ToolError(str(gone)) from gone
    finally:
        end_servers(settings, job=profile.job_id)
    if "failed" in event:
        raise ToolError(event["why"])
    return make_pin(server, event["about"])


def _confining(workspace: Path, settings: Settings, readable: Sequence[Path]) -> Confining | None:
    backend = choose_backend(settings.sandbox)
    if not isinstance(backend, Backend):
        return None

    def confining(hold: Hold, argv: list[str]) -> list[str]:
        assert hold.home is not None
        policy = SandboxPolicy(workspace=workspace, scratch=hold.home, read_only=False, network=hold.network)
        return confine(policy, backend, argv, settings, (*hold.readable, *readable))

    return confining
