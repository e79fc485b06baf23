"""`swarm mcp login` and `logout`: a person's logins at MCP servers, and their states."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.capabilities.mcp.launch import FindLogin
from swarm.capabilities.mcp.logins import Login, Logins, Seal, make_key, way_to
from swarm.cli.options import WorkspaceOption
from swarm.cli.output import one_line, print_line, print_note
from swarm.client.preparation import find_workspace
from swarm.client.project import gather
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, SwarmError, install_command
from swarm.core.settings import Settings, load_settings
from swarm.definitions.mcp.servers import MissingVariables, OAuth, Server, expand
from swarm.definitions.memory_stores import find_places
from swarm.local.redis_server import ensure_redis
from swarm.store.connection import socket_path

_SECONDS = 600.0
"""Maximum time for the browser, in seconds."""
_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The server, as `swarm mcp list` shows it.")]


def log_in(
    name: _NameArgument,
    client: Annotated[
        bool,
        typer.Option(
            "--client",
            help="Log in by the client credentials in its `oauth` configuration.",
        ),
    ] = False,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Log in to a server, for your jobs on all hosts.

    Prints an address for your browser, which returns to this machine. If it cannot, paste the address at which it ends.
    """
    settings, folder = load_settings(), find_workspace(workspace)
    server = _find_server(name, folder, settings)
    try:
        from swarm.capabilities.mcp.broker.admission import describe_login
        from swarm.capabilities.mcp.broker.oauth import NotGranted, NotReached
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; run: {install_command('mcp')}") from error

    # The library logs failures with tracebacks; the useful part is printed below.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    person, url = _person(folder, settings), _address(server)
    swarm = _reach(settings)
    seal = Seal(make_key(settings), person, url)
    try:
        granted = asyncio.run(_as_client(url, server) if client else _by_browser(url, server))
    except TimeoutError as error:
        raise SwarmError(f"no login to {server.name} within {_SECONDS:g} s") from error
    except (NotGranted, NotReached) as error:
        raise SwarmError(f"the login to {server.name} has failed: {one_line(str(error), 600)}") from error
    login = describe_login(seal, granted)
    with swarm.store.explained():
        Logins(swarm.store.keyspace).keep(person, url, login)
    print_note(f"{server.name}: {tell_login(login, login.made_at)}")


def log_out(name: _NameArgument, workspace: WorkspaceOption = Path()) -> None:
    """Forget your login to a server, on all hosts. Running jobs lose access."""
    settings, folder = load_settings(), find_workspace(workspace)
    server = _find_server(name, folder, settings)
    swarm = _reach(settings)
    with swarm.store.explained():
        gone = Logins(swarm.store.keyspace).remove(_person(folder, settings), _address(server))
    print_note(f"{server.name}: {'logged out' if gone else 'was not logged in'}")


def tell_login(login: Login, now: float) -> str:
    """Describe a login's state in one line."""
    if login.ended:
        return f"login ended: {login.ended}"
    if login.has_ended(now):
        return "login expired"
    if login.expires_at is None:
        return "logged in"
    until = datetime.fromtimestamp(login.expires_at).strftime("%Y-%m-%d %H:%M")
    return f"logged in, renewed from {until} on" if login.renewable else f"logged in until {until}"


def read_states(servers: Iterable[Server], workspace: Path, settings: Settings) -> dict[str, str]:
    """States of the servers' logins by name; servers without one are missing, and all are if Redis is down."""
    far = [server for server in servers if server.transport != "stdio"]
    found: dict[str, str] = {}
    if not far or not _is_up(settings):
        return found
    store, person = Swarm(settings).store, _person(workspace, settings)
    try:
        with store.explained():
            now = store.now()
            for server in far:
                if (url := _try_address(server)) and (login := Logins(store.keyspace).find(person, url)):
                    found[server.name] = tell_login(login, now)
    except SwarmError as error:
        print_note(f"logins cannot be read: {error}")
    return found


def make_finder(workspace: Path, settings: Settings) -> FindLogin:
    """Make a function that finds the login of the person running this command."""
    person = _person(workspace, settings)

    def find(url: str) -> dict[str, Any] | None:
        return way_to(settings, Swarm(settings).store, person, url) if _is_up(settings) else None

    return find


async def _by_browser(url: str, server: Server) -> dict[str, Any]:
    from swarm.capabilities.mcp.broker.oauth import log_in as log_in_at
    from swarm.capabilities.mcp.broker.redirect import listen

    async def show(address: str) -> None:
        print_note(
            f"open this address to log in to {server.name}; if your browser cannot return, paste the address it ends at:"
        )
        print_line(address)

    told = _filled(server)
    async with listen(told.callback_port, _SECONDS) as (redirect, receive):
        return await log_in_at(
            url,
            redirect,
            show,
            receive,
            client_id=told.client_id,
            client_secret=told.client_secret,
            scope=told.scope,
            issuer=told.issuer,
        )


async def _as_client(url: str, server: Server) -> dict[str, Any]:
    from swarm.capabilities.mcp.broker.oauth import log_in_as_client

    told = _filled(server)
    if not (told.client_id and told.client_secret and told.issuer):
        raise ConfigurationError(
            f"the `oauth` of {server.name} must have clientId, clientSecret and issuer (the authorisation server that issued them)"
        )
    return await log_in_as_client(url, told.client_id, told.client_secret, scope=told.scope, issuer=told.issuer)


def _find_server(name: str, folder: Path, settings: Settings) -> Server:
    found = gather(folder, settings)
    own = (one for each in found.catalogue.definitions.values() for one in each.servers)
    server = next((one for one in (*found.configured.servers, *own) if name in (one.name, one.key)), None)
    if server is None:
        waits = any(name in (one.name, one.key) for one in (*found.configured.untrusted, *found.catalogue.unapproved))
        why = (
            "is not approved; `swarm trust` approves it"
            if waits
            else "is not configured; `swarm mcp list` shows the configured ones"
        )
        raise ConfigurationError(f"the MCP server {name!r} {why}")
    if server.transport == "stdio":
        raise ConfigurationError(f"the MCP server {name!r} is a program: give it credentials in its `env`")
    if server.oauth is not None and server.oauth.off:
        raise ConfigurationError(f"the configuration of the MCP server {name!r} says `oauth: false` ({server.source})")
    if any(header.lower() == "authorization" for header in server.headers):
        raise ConfigurationError(
            f"the MCP server {name!r} gets the Authorization header of its configuration ({server.source}) instead of a login"
        )
    return server


def _filled(server: Server) -> OAuth:
    """The server's login configuration, with this shell's variables."""
    told = server.oauth or OAuth()
    texts = {"client_id": told.client_id, "client_secret": told.client_secret, "issuer": told.issuer}
    carrier = Server(name=server.name, transport="stdio", env=texts)
    return told.model_copy(update=expand(carrier, os.environ, ["*"]).env)


def _address(server: Server) -> str:
    return expand(server.model_copy(update={"headers": {}}), os.environ, ["*"]).url


def _try_address(server: Server) -> str:
    try:
        return _address(server)
    except MissingVariables:
        return ""


def _person(folder: Path, settings: Settings) -> str:
    return find_places(folder, settings.memory_owner).owner


def _reach(settings: Settings) -> Swarm:
    if settings.redis_url is None:
        ensure_redis(settings)
    return Swarm(settings)


def _is_up(settings: Settings) -> bool:
    """Whether Redis already runs and can be asked."""
    return bool(settings.redis_url) or socket_path(settings).exists()
