"""`swarm mcp`: MCP servers for agents, and the fleet as an MCP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from swarm.capabilities.mcp.pins import Pin
from swarm.cli.lookup import see_to_workers
from swarm.cli.mcp_logins import log_in, log_out, make_finder, read_states
from swarm.cli.options import JsonOption, WorkspaceOption, takes
from swarm.cli.output import one_line, print_json, print_line, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import Project, gather
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, ToolError
from swarm.core.settings import Settings, load_settings
from swarm.definitions.mcp.lacks import INSTALL, find_lack
from swarm.definitions.mcp.reader import OWN_FILE, PROJECT_FILE
from swarm.definitions.mcp.servers import MissingVariables, Server
from swarm.definitions.mcp.writer import add_entry, make_entry
from swarm.local.stack import up
from swarm.permissions.ceiling import Ceiling
from swarm.store.api_keys import SCOPES, ApiKey

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@group.callback()
def mcp() -> None:
    """List, add and check the MCP servers of agents, or serve the fleet as one."""


group.command("login")(log_in)
group.command("logout")(log_out)


@group.command("list")
def list_servers(workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List a workspace's servers, where each is configured, and whether it is approved."""
    settings = load_settings()
    folder = find_workspace(workspace)
    found = gather(folder, settings)
    rows = list(_list_rows(found, here=settings.redis_url is None))
    logins = read_states([row.server for row in rows], folder, settings)
    if as_json:
        servers = [row.describe() | {"login": logins.get(row.server.name, "")} for row in rows]
        problems = [problem.model_dump() for problem in found.configured.problems]
        print_json({"servers": servers, "off": list(found.configured.off), "problems": problems})
        return
    Listing[_Listed](
        Column("server", lambda row: row.server.name),
        Column("state", lambda row: row.state),
        Column("what", lambda row: row.server.describe(), drop=1, flexible=True),
        Column("login", lambda row: logins.get(row.server.name), drop=3),
        Column("wants", lambda row: ", ".join(row.server.needed_variables), drop=4),
        Column("only for", lambda row: row.only_for, drop=5),
        Column("source", lambda row: row.server.source, drop=2),
        otherwise="no MCP server is configured here; `swarm mcp add NAME -- COMMAND` adds one",
    ).show(rows)
    for name in found.configured.off:
        print_note(f"switched off: {one_line(name, 80)}")
    for problem in found.configured.problems:
        print_note(f"problem: {problem}")
    for lack in dict.fromkeys(row.lack for row in rows if row.lack):
        names = dict.fromkeys(row.server.name for row in rows if row.lack == lack)
        print_note(f"{', '.join(names)} cannot run on this machine: {lack}")
    _tell_missing([row.server for row in rows], sum(not row.approved for row in rows), settings)


def _list_rows(found: Project, *, here: bool) -> Iterator[_Listed]:
    """List the servers of a project; `here`, on the machine of its only worker, with the reason why one cannot run."""
    own = [(server, one.name) for one in found.catalogue.definitions.values() for server in one.servers]
    for server, only_for in [*((server, "") for server in found.configured.servers), *own]:
        yield _Listed(server, only_for, find_lack(server) if here else "")
    yield from (_Listed(server, "", approved=False) for server in found.configured.untrusted)
    yield from (_Listed(server, "its type", approved=False) for server in found.catalogue.unapproved)


class _Listed(NamedTuple):
    """A server in the list."""

    server: Server
    only_for: str
    lack: str = ""
    """Why it cannot run on this machine."""
    approved: bool = True

    @property
    def state(self) -> str:
        """One word for whether it can be used here."""
        if not self.approved:
            return "not approved"
        return "cannot run" if self.lack else "ready"

    def describe(self) -> dict[str, Any]:
        """Return its fields as JSON."""
        return {**_describe(self.server), "state": self.state, "lack": self.lack, "only_for": self.only_for}


def _tell_missing(servers: Sequence[Server], waiting: int, settings: Settings) -> None:
    """Print why servers cannot be used: missing approval, or variables that workers do not pass on."""
    if waiting:
        print_note(f"{show_number(waiting, 'server')} not approved; `swarm trust --show` lists, `swarm trust` approves")
    given = settings.mcp_variables()
    wanted = sorted({name for server in servers for name in server.variables})
    if missing := [name for name in wanted if not any(fnmatchcase(name, pattern) for pattern in given)]:
        print_note(f"note: workers give servers only what their SWARM_MCP_ENV names; wanted: {', '.join(missing)}")


@dataclass(frozen=True)
class ServerOptions:
    """The options of `swarm mcp add`."""

    name: Annotated[str, typer.Argument(metavar="NAME")]
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS…]", help="Program that is the server.")
    ] = None
    url: Annotated[str, typer.Option("--url", help="Address of a remote server.")] = ""
    sse: Annotated[bool, typer.Option("--sse", help="Use the older SSE transport.")] = False
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable; VALUE may be '${NAME}'.")
    ] = None
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Sent with each request.")
    ] = None
    tool: Annotated[
        list[str] | None, typer.Option("--tool", metavar="PATTERN", help="Offer only tools that match.")
    ] = None
    project: Annotated[
        bool, typer.Option("--project", help=f"Write it into {PROJECT_FILE} of the workspace, for everybody.")
    ] = False
    replace: Annotated[bool, typer.Option("--replace", help="Replace a server of that name.")] = False
    workspace: WorkspaceOption = Path()


@group.command("add")
@takes(ServerOptions)
def add_server(given: ServerOptions) -> None:
    """Add a server: yours for all workspaces, or with --project one of this workspace's.

    Everything after `--` belongs to the program: swarm mcp add issues --env 'TOKEN=${TOKEN}' -- issues-mcp --read-only
    """
    entry = make_entry(
        given.command or [],
        url=given.url,
        sse=given.sse,
        env=given.env or [],
        headers=given.header or [],
        tools=given.tool or [],
    )
    path = find_workspace(given.workspace) / PROJECT_FILE if given.project else Path.home() / OWN_FILE
    server = add_entry(path, given.name, entry, replace=given.replace)
    print_note(f"added to {path}: {server.name}, {one_line(server.describe(), 200)}")
    if given.project:
        print_note("jobs here use it once `swarm trust` approves it")
    if wanted := server.needed_variables:
        print_note(f"workers must have {', '.join(wanted)}, and name it in SWARM_MCP_ENV")


@group.command("check")
def check_servers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Servers to check. Default: all active ones.")
    ] = None,
    network: Annotated[bool, typer.Option("--network", help="Allow the network, as in a job that has it.")] = False,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Start each server here as for an agent, list its tools, and end it. Exit code 1 if one cannot be used."""
    from swarm.capabilities.mcp.host import probe

    settings, folder = load_settings(), find_workspace(workspace)
    found = gather(folder, settings)
    waiting = [*found.configured.untrusted, *found.catalogue.unapproved]
    servers = [row.server for row in _list_rows(found, here=False) if row.approved]
    offered = (*servers, *waiting)
    if unknown := set(names or ()) - {name for server in offered for name in (server.name, server.key)}:
        raise ConfigurationError(
            f"no MCP server {min(unknown)!r} is configured here; `swarm mcp list` shows the configured ones"
        )
    find_login, logins = make_finder(folder, settings), read_states(servers, folder, settings)
    results: list[dict[str, Any]] = []
    for server in offered:
        if names and not {server.name, server.key}.intersection(names):
            continue
        told: dict[str, Any] = {"ok": False, "why": "not approved; `swarm trust` approves it"}
        if server in servers:
            told = _describe_probe(partial(probe, server, folder, settings, find_login, network=network))
        results.append({"name": server.name, **told, "login": logins.get(server.name, "")})
        if not as_json:
            print_line(_tell_result(results[-1]))
    if as_json:
        print_json(results)
    if not all(told["ok"] for told in results):
        raise typer.Exit(1)


def _describe_probe(look: Callable[[], Pin]) -> dict[str, Any]:
    try:
        pin = look()
    except (ToolError, MissingVariables) as error:
        return {"ok": False, "why": str(error)}
    return {"ok": True, "why": "", "tools": [tool.called for tool in pin.tools], "left_out": pin.left_out}


def _tell_result(told: dict[str, Any]) -> str:
    if not told["ok"]:
        return f"{told['name']}: cannot be used: {one_line(told['why'], 600)}"
    left_out = "".join(f"; left out: {one_line(reason, 200)}" for reason in told["left_out"])
    login = f"; {told['login']}" if told["login"] else ""
    return f"{told['name']}: {show_number(len(told['tools']), 'tool')}: {', '.join(told['tools'])}{left_out}{login}"


@group.command("serve")
def serve(
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP, to callers with a key of `swarm keys`.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --http: port; 0 takes a free one.")] = 8401,
    workspace: WorkspaceOption = Path(),
    only: Annotated[
        list[Path] | None,
        typer.Option("--only", metavar="FOLDER", help="Over stdio: folder that jobs may work in. Default: any."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help=f"Over stdio: the client's scope: {', '.join(SCOPES)}. Default: all.",
        ),
    ] = None,
) -> None:
    """Offer the fleet to any MCP client: start jobs, follow, answer and cancel them.

    Over stdio the client starts this command. With --http it serves `/mcp`, and each caller has the scopes and folders of its key.
    """
    try:
        from swarm.api.mcp.server import FleetServer, make_http, serve_stdio
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; run: {INSTALL}") from error

    settings, folder = load_settings(), find_workspace(workspace)
    if unknown := sorted(set(scope or ()) - set(SCOPES)):
        raise ConfigurationError(f"{unknown[0]!r} is not a scope; choose from: {', '.join(SCOPES)}")
    if settings.redis_url is None:
        up(settings, workers=0)
    with Swarm(settings) as swarm:
        may = tuple(known for known in SCOPES if known in (scope or SCOPES))
        below = Ceiling(workspaces=tuple(find_workspace(one) for one in only or ()))
        local = None if http else ApiKey(name="mcp", scopes=may, ceiling=below, created_at=0)
        server = FleetServer(swarm, folder, local=local, ready=lambda: see_to_workers(swarm))
        if not http:
            serve_stdio(server)
            return
        import uvicorn

        uvicorn.run(make_http(server, swarm, host), host=host, port=port, log_level="info", timeout_graceful_shutdown=2)


def _describe(server: Server) -> dict[str, Any]:
    """Describe the server; literal values that may be secrets are left out."""
    told = json.loads(server.model_dump_json())
    for table in ("env", "headers"):
        told[table] = {name: value if "${" in value else "(set)" for name, value in told[table].items()}
    return {**told, "digest": server.digest, "tools_are_called": f"mcp__{server.key}__*"}
