"""Starts an MCP server on this machine as a worker would for an agent, asks it what it offers, and ends it."""

from __future__ import annotations

import secrets
from pathlib import Path

from swarm.errors import ConfigurationError, ToolError
from swarm.mcp.launching import Confining, FindLogin, Profile, describe_launch
from swarm.mcp.line import INSTALL, BrokerGone, can_start_broker
from swarm.mcp.pins import Pin, make_pin
from swarm.mcp.servers import Server
from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend
from swarm.runtime.scratch import confine
from swarm.runtime.servers import end_servers, line_of
from swarm.settings import Settings
from swarm.tools import Hold


def probe(server: Server, workspace: Path, settings: Settings, find_login: FindLogin, *, network: bool) -> Pin:
    """What a server offers; a process has the sandbox of agents' commands in the workspace, and the network only with `network`.

    Raises `ToolError`, or `MissingVariables`, which say why it cannot be used; `ConfigurationError` where nothing speaks with servers.
    """
    if not can_start_broker():
        raise ConfigurationError(f"nothing here speaks with MCP servers; run: {INSTALL}")
    profile = Profile(f"check-{secrets.token_hex(6)}", "", str(workspace), (), read_only=False, network=network)
    line, allowed = line_of(settings), settings.mcp_variables()
    confining = _confining(workspace, settings)
    launch = describe_launch(server, profile, confining, line.folder, allowed, settings.network == "off", find_login)
    try:
        event = line.ask({"do": "start", "key": profile.key_for(server), "launch": launch})
    except BrokerGone as gone:
        raise ToolError(str(gone)) from gone
    finally:
        end_servers(settings, job=profile.job_id)
    if "failed" in event:
        raise ToolError(event["why"])
    return make_pin(server, event["about"])


def _confining(workspace: Path, settings: Settings) -> Confining | None:
    backend = choose_backend(settings.sandbox)
    if not isinstance(backend, Backend):
        return None

    def confining(hold: Hold, argv: list[str]) -> list[str]:
        assert hold.home is not None
        policy = SandboxPolicy(workspace=workspace, scratch=hold.home, read_only=False, network=hold.network)
        return confine(policy, backend, argv, settings, hold.readable)

    return confining
