"""`swarm keys`: keys for callers of the HTTP API, and their permissions."""

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
    """Create, list and remove keys of the HTTP API."""


@group.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Owner of the key; its answers carry this name.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help=f"Scope of the key: {', '.join(SCOPES)}. Default: all.")
    ] = None,
    workspace: Annotated[
        list[Path] | None,
        typer.Option("--workspace", help="Folder that its jobs may work in or below. Default: any.", metavar="FOLDER"),
    ] = None,
    mode: Annotated[
        PermissionMode, typer.Option("--mode", help="The most permissive mode of its jobs.")
    ] = KEY_CEILING.mode or "default",
    network: Annotated[bool, typer.Option("--network", help="Its jobs may use the network.")] = KEY_CEILING.network,
    allow: Annotated[
        bool, typer.Option("--allow-rules", help="It may allow calls by rules, and answer permanently.")
    ] = KEY_CEILING.allow,
    check: Annotated[bool, typer.Option("--check", help="Its jobs may bring a check command.")] = KEY_CEILING.check,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="Maximum cost of each of its jobs and maps.", min=0.000001),
    ] = None,
) -> None:
    """Create a key and print it once. Orders beyond its ceilings are refused."""
    swarm = Swarm()
    folders = tuple(folder.expanduser().resolve() for folder in workspace or ())
    ceiling = Ceiling(workspaces=folders, mode=mode, network=network, allow=allow, check=check, max_cost_usd=max_cost)
    with swarm.store.explained():
        token = ApiKeys(swarm.store.keyspace).create(name, scope or SCOPES, ceiling)
    print_line(token)
    print_note(f"callers send it as `Authorization: Bearer KEY`; `swarm keys remove {name}` revokes it")


@group.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List the keys, without their secrets."""
    swarm = Swarm()
    with swarm.store.explained():
        found = ApiKeys(swarm.store.keyspace).all()
    _KEYS.show(found, as_json=as_json)


@group.command("remove")
def remove_key(name: Annotated[str, typer.Argument(help="Name, as `swarm keys list` shows it.")]) -> None:
    """Revoke a key: calls with it are refused from now on."""
    swarm = Swarm()
    with swarm.store.explained():
        if not ApiKeys(swarm.store.keyspace).remove(name):
            raise ConfigurationError(f"there is no key {name!r}; `swarm keys list` lists all")
    print_note(f"removed: {name}")


_KEYS = Listing[ApiKey](
    Column("key", lambda key: key.name),
    Column("made", lambda key: show_moment(key.created_at).partition(" ")[0], drop=1),
    Column("scopes", lambda key: ",".join(key.scopes)),
    Column("ceilings", lambda key: key.ceiling.describe(), flexible=True),
    otherwise="there are no keys; `swarm keys add NAME` makes one",
)
