"""`swarm mcp`: the servers whose tools agents have here, and the fleet as a server for other tools."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.cli.mcp_logins import log_in, log_out, make_finder, read_states
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import one_line, print_json, print_line, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.gathering import gather
from swarm.client.orders import find_workspace
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, ToolError
from swarm.core.settings import load_settings
from swarm.definitions.mcp.adding import add_entry, make_entry
from swarm.definitions.mcp.reading import OWN_FILE, PROJECT_FILE
from swarm.definitions.mcp.servers import MissingVariables, Server
from swarm.local.stack import up
from swarm.permissions.ceiling import Ceiling
from swarm.store.api_keys import SCOPES, ApiKey

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@group.callback()
def mcp() -> None:
    """List, add and check the MCP servers of agents, or offer the fleet as one."""


group.command("login")(log_in)
group.command("logout")(log_out)


@group.command("list")
def list_servers(workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List the servers that agents have in a workspace, where each is configured, and whether it is approved."""
    settings = load_settings()
    folder = find_workspace(workspace)
    found = gather(folder, settings)
    of_types = [(one.name, server) for one in found.catalogue.definitions.values() for server in one.servers]
    rows = [
        *((server, "ready", "") for server in found.configured.servers),
        *((server, "ready", name) for name, server in of_types),
        *((server, "not approved", "") for server in found.configured.untrusted),
        *((server, "not approved", "its type") for server in found.catalogue.unapproved),
    ]
    logins = read_states([server for server, _, _ in rows], folder, settings)
    if as_json:
        print_json(
            {
                "servers": [
                    {**_describe(server), "state": state, "only_for": only, "login": logins.get(server.name, "")}
                    for server, state, only in rows
                ],
                "off": list(found.configured.off),
                "problems": [problem.model_dump() for problem in found.configured.problems],
            }
        )
        return
    table = Listing(
        *(Column("server"), Column("state"), Column("what", drop=1, flexible=True)),
        *(Column("login", drop=3), Column("wants", drop=4), Column("only for", drop=5), Column("source", drop=2)),
    )
    for server, state, only in rows:
        wants = ", ".join(name for name, default in server.variables.items() if default is None)
        what, login = one_line(server.describe(), 200), one_line(logins.get(server.name, ""), 80)
        table.add_row(server.name, state, what, login, wants, only, one_line(server.source, 120))
    table.show("no MCP server is configured here; `swarm mcp add NAME -- COMMAND` adds one")
    for name in found.configured.off:
        print_note(f"switched off: {one_line(name, 80)}")
    for problem in found.configured.problems:
        print_note(f"problem: {problem}")
    waiting = [row for row in rows if row[1] == "not approved"]
    if waiting:
        print_note(
            f"{show_number(len(waiting), 'server')} not approved; `swarm trust --show` lists, `swarm trust` approves"
        )
    given = settings.mcp_variables()
    wanted = sorted({name for server, _, _ in rows for name in server.variables})
    if missing := [name for name in wanted if not any(fnmatchcase(name, pattern) for pattern in given)]:
        print_note(f"note: workers give servers only what their SWARM_MCP_ENV names; wanted: {', '.join(missing)}")


@group.command("add")
def add_server(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS…]", help="The program, for one that is a process.")
    ] = None,
    url: Annotated[str, typer.Option("--url", help="Its address, for one that is not.")] = "",
    sse: Annotated[bool, typer.Option("--sse", help="The address speaks the older transport.")] = False,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable; VALUE may be '${NAME}'.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Sent with each request.")
    ] = None,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", metavar="PATTERN", help="Offer only such tools of it.")
    ] = None,
    project: Annotated[
        bool, typer.Option("--project", help=f"Write it into {PROJECT_FILE} of the workspace, for everybody.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Also where there is one of that name.")] = False,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Add a server: yours for all workspaces, or with --project one of this workspace's.

    Behind `--` everything is the program's: swarm mcp add issues --env 'TOKEN=${TOKEN}' -- issues-mcp --read-only
    """
    entry = make_entry(command or [], url=url, sse=sse, env=env or [], headers=header or [], tools=tool or [])
    path = find_workspace(workspace) / PROJECT_FILE if project else Path.home() / OWN_FILE
    server = add_entry(path, name, entry, replace=replace)
    print_note(f"added to {path}: {server.name}, {one_line(server.describe(), 200)}")
    if project:
        print_note("it holds for jobs here once `swarm trust` approves it")
    if wanted := [variable for variable, default in server.variables.items() if default is None]:
        print_note(f"workers must have {', '.join(wanted)}, and name it in SWARM_MCP_ENV")


@group.command("check")
def check_servers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Only these. Default: all that hold.")
    ] = None,
    network: Annotated[bool, typer.Option("--network", help="With the network, as in a job that has it.")] = False,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Start servers on this machine as for an agent, say what each offers, and end them. Exit code 1 if one cannot be used."""
    from swarm.capabilities.mcp.host import probe

    settings, folder = load_settings(), find_workspace(workspace)
    found = gather(folder, settings)
    waiting = [*found.configured.untrusted, *found.catalogue.unapproved]
    servers = [
        *found.configured.servers,
        *(one for each in found.catalogue.definitions.values() for one in each.servers),
    ]
    for name in names or ():
        if not any(name in (server.name, server.key) for server in (*servers, *waiting)):
            raise ConfigurationError(
                f"no MCP server {name!r} is configured here; `swarm mcp list` shows those that are"
            )
    find_login, logins = make_finder(folder, settings), read_states(servers, folder, settings)
    results: list[dict[str, Any]] = []
    for server in (*servers, *waiting):
        if names and server.name not in names and server.key not in names:
            continue
        told: dict[str, Any] = {"name": server.name, "ok": False, "why": "not approved; `swarm trust` approves it"}
        told["login"] = logins.get(server.name, "")
        if server in servers:
            try:
                pin = probe(server, folder, settings, find_login, network=network)
                told |= {"ok": True, "why": "", "tools": [tool.called for tool in pin.tools], "left_out": pin.left_out}
            except (ToolError, MissingVariables) as error:
                told["why"] = str(error)
        results.append(told)
        if not as_json:
            print_line(_tell_result(told))
    if as_json:
        print_json(results)
    if not all(told["ok"] for told in results):
        raise typer.Exit(1)


def _tell_result(told: dict[str, Any]) -> str:
    if not told["ok"]:
        return f"{told['name']}: cannot be used: {one_line(told['why'], 600)}"
    left_out = "".join(f"; left out: {one_line(reason, 200)}" for reason in told["left_out"])
    login = f"; {told['login']}" if told["login"] else ""
    return f"{told['name']}: {show_number(len(told['tools']), 'tool')}: {', '.join(told['tools'])}{left_out}{login}"


@group.command("serve")
def serve(
    http: Annotated[
        bool, typer.Option("--http", help="Over HTTP, to callers with a key of `swarm keys`, not over stdio.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --http: port; 0 takes a free one.")] = 8401,
    workspace: WorkspaceOption = Path(),
    only: Annotated[
        list[Path] | None,
        typer.Option(
            "--only", metavar="FOLDER", help="Over stdio: the only folders that jobs may work in. Default: any."
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help=f"Over stdio: what the client may do, of {', '.join(SCOPES)}. Default: all.",
        ),
    ] = None,
) -> None:
    """Offer the fleet to any MCP client: start jobs, follow, answer and cancel them.

    Over stdio the client starts this command; with --http it serves `/mcp`, each caller with the scopes and folders of its key.
    """
    try:
        from swarm.api.mcp.server import FleetServer, make_http, serve_stdio
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; run: pip install 'celery-swarm[mcp]'") from error

    settings, folder = load_settings(), find_workspace(workspace)
    if unknown := sorted(set(scope or ()) - set(SCOPES)):
        raise ConfigurationError(f"{unknown[0]!r} is no scope; there are: {', '.join(SCOPES)}")
    if settings.redis_url is None:
        up(settings, workers=0)
    with Swarm(settings) as swarm:
        may = tuple(known for known in SCOPES if known in (scope or SCOPES))
        below = Ceiling(workspaces=tuple(find_workspace(one) for one in only or ()))
        local = None if http else ApiKey(name="mcp", scopes=may, ceiling=below, created_at=0)
        server = FleetServer(swarm, folder, local=local, ready=lambda: _see_to_workers(swarm))
        if not http:
            serve_stdio(server)
            return
        import uvicorn

        uvicorn.run(make_http(server, swarm, host), host=host, port=port, log_level="info", timeout_graceful_shutdown=2)


def _see_to_workers(swarm: Swarm) -> None:
    """Start a worker where the swarm is this machine's own, and none is there."""
    if swarm.settings.redis_url is None and not swarm.workers():
        up(swarm.settings, workers=1)


def _describe(server: Server) -> dict[str, Any]:
    """Everything about it but values that may be secrets: what is not a variable is left out of them."""
    told = json.loads(server.model_dump_json())
    for table in ("env", "headers"):
        told[table] = {name: value if "${" in value else "(set)" for name, value in told[table].items()}
    return {**told, "digest": server.digest, "tools_are_called": f"mcp__{server.key}__*"}
