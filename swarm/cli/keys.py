"""`swarm keys`: who may call the HTTP API, and for what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.options import JsonOption
from swarm.cli.output import print_line, print_note, show_moment
from swarm.cli.tables import Column, Listing
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.definitions.model import PermissionMode
from swarm.permissions.ceiling import KEY_CEILING, Ceiling
from swarm.store.api_keys import SCOPES, ApiKey, ApiKeys

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@group.callback()
def keys() -> None:
    """Make, list and remove the keys of the HTTP API."""


@group.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; answers given with it are from this name.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help=f"What it is good for: {', '.join(SCOPES)}. Default: all.")
    ] = None,
    workspace: Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace", help="A folder that its jobs may work in or below. Default: any.", metavar="FOLDER"
        ),
    ] = None,
    mode: Annotated[
        PermissionMode, typer.Option("--mode", help="The most permissive mode of its jobs.")
    ] = KEY_CEILING.mode or "default",
    network: Annotated[bool, typer.Option("--network", help="Its jobs may use the network.")] = KEY_CEILING.network,
    allow: Annotated[
        bool, typer.Option("--allow-rules", help="It may allow calls by rules, and answer for good.")
    ] = KEY_CEILING.allow,
    check: Annotated[bool, typer.Option("--check", help="Its jobs may bring a check command.")] = KEY_CEILING.check,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="What each of its jobs and maps may cost.", min=0.000001),
    ] = None,
) -> None:
    """Make a key and print it; it is not shown again. What its orders ask for beyond its ceilings is refused."""
    swarm = Swarm()
    folders = tuple(folder.expanduser().resolve() for folder in workspace or ())
    ceiling = Ceiling(workspaces=folders, mode=mode, network=network, allow=allow, check=check, max_cost_usd=max_cost)
    with swarm.store.explained():
        token = ApiKeys(swarm.store.keyspace).create(name, scope or SCOPES, ceiling)
    print_line(token)
    print_note(f"callers send it as `Authorization: Bearer KEY`; `swarm keys remove {name}` takes it back")


@group.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List the keys that there are, without what is secret of them."""
    swarm = Swarm()
    with swarm.store.explained():
        found = ApiKeys(swarm.store.keyspace).all()
    _KEYS.show(found, as_json=as_json)


@group.command("remove")
def remove_key(name: Annotated[str, typer.Argument(help="As `swarm keys list` shows it.")]) -> None:
    """Take a key back: from this moment on, calls with it are refused."""
    swarm = Swarm()
    with swarm.store.explained():
        if not ApiKeys(swarm.store.keyspace).remove(name):
            raise ConfigurationError(f"there is no key {name!r}; `swarm keys list` shows those that there are")
    print_note(f"removed: {name}")


_KEYS = Listing[ApiKey](
    Column("key", lambda key: key.name),
    Column("made", lambda key: show_moment(key.created_at).partition(" ")[0], drop=1),
    Column("scopes", lambda key: ",".join(key.scopes)),
    Column("ceilings", lambda key: key.ceiling.describe(), flexible=True),
    otherwise="there are no keys; `swarm keys add NAME` makes one",
)
