"""`swarm plugins`: the plugins for a workspace, the parts of each, and a person's own ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swarm.capabilities.plugins.parts import count_parts, list_parts
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import one_line, plain, print_json, print_note
from swarm.cli.tables import Column, Listing
from swarm.client.plugins import PluginSpec, add_plugin, remove_plugin
from swarm.client.preparation import find_workspace
from swarm.client.project import is_trusted
from swarm.core.settings import load_settings
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Brought, Plugin

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@group.callback()
def plugins() -> None:
    """List, add and remove plugins: agents, skills, commands, hooks and MCP servers together."""


@group.command("list")
def list_plugins(workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List a workspace's plugins, the parts of each, and all that is refused with the reason."""
    folder = find_workspace(workspace)
    found, trusted = load_plugins(folder), is_trusted(folder, load_settings())
    rows = [(one, list_parts(one)) for one in found.all]
    states = {one.id: _tell_state(one, trusted=trusted) for one in found.all}
    if as_json:
        listed = [
            {
                "id": one.id,
                "version": one.version,
                "commit": one.commit,
                "digest": one.digest,
                "folder": str(one.folder),
                "state": states[one.id],
                "carried": bool(one.bundle),
                **parts.names,
                "problems": [problem.model_dump() for problem in parts.problems],
            }
            for one, parts in rows
        ]
        print_json(
            {"plugins": listed, "absent": found.absent, "problems": [one.model_dump() for one in found.problems]}
        )
        return
    Listing[tuple[Plugin, Brought]](
        Column("plugin", lambda row: row[0].id),
        Column("state", lambda row: states[row[0].id]),
        Column("brings", lambda row: count_parts(row[1]), flexible=True),
        Column("version", lambda row: row[0].version or row[0].commit[:12], drop=2),
        Column("content", lambda row: row[0].digest[:12], drop=3),
        otherwise="there are none here; `swarm plugins add` takes a folder, a Git URL, or NAME@MARKETPLACE",
    ).show(rows)
    for name, source in found.absent:
        print_note(f"not installed: {plain(name)} ({plain(source)}); `swarm plugins add {plain(name)}` installs it")
    for name, source in found.off:
        print_note(f"switched off: {plain(name)} ({plain(source)})")
    for problem in [*found.problems, *(problem for _, parts in rows for problem in parts.problems)]:
        print_note(f"problem: {problem}")


@group.command("add")
def add(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Folder, Git URL, or NAME@MARKETPLACE (a name, folder, file or URL)."),
    ],
    ref: Annotated[str, typer.Option("--ref", metavar="REF", help="Branch, tag or full commit of a Git URL.")] = "",
    path: Annotated[str, typer.Option("--path", metavar="FOLDER", help="The plugin's folder in the repository.")] = "",
    workspace: WorkspaceOption = Path(),
) -> None:
    """Add a plugin for all workspaces: a copy, pinned to its content."""
    name, plugin = add_plugin(PluginSpec(source, ref, path), Path.home(), find_workspace(workspace))
    parts = list_parts(plugin)
    print_note(f"added {name}, pinned to {plugin.digest[:12]}: {count_parts(parts)}")
    for program in parts.runs:
        print_note(f"it runs {one_line(program, 200)}")
    for problem in parts.problems:
        print_note(f"problem: {problem}")


@group.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="Plugin's name or id.")]) -> None:
    """Remove an added plugin; running jobs keep it."""
    print_note(f"removed {remove_plugin(name, Path.home())}")


def _tell_state(plugin: Plugin, *, trusted: bool) -> str:
    if plugin.disabled_by:
        told = "switched off" if trusted else "on; not trusted to be switched off"
        return f"{told} by {plugin.disabled_by}"
    if plugin.enabled_by:
        return f"{'on' if trusted else 'not trusted'}, by {plugin.enabled_by}"
    return f"on{f', {plugin.system}' if plugin.system != 'claude' else ''}"
