"""`swarm compat`: the fate here of everything that other systems' files say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.fates import list_entries
from swarm.client.preparation import find_workspace
from swarm.client.project import gather
from swarm.core.settings import load_settings
from swarm.definitions.foreign_keys import ForeignEntry


def show_compat(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The workspace.", show_default="here")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """List what files of Claude Code, OpenCode and Codex mean here.

    Each file, key, rule and server is applied, applied differently, or not applied, with the reason. A problem is an entry that
    cannot be used.
    """
    folder = find_workspace(path)
    found = list_entries(gather(folder, load_settings()), folder, Path.home())
    if as_json:
        print_json([{"place": one.place, "kind": one.kind, "name": one.name, **one.fate._asdict()} for one in found])
        return
    _ENTRIES.show(found)
    lost = sum(one.fate.fate == "not applied" for one in found)
    print_note(f"{len(found)} entries, {lost} not applied; {show_number(sum(map(_guards, found)), 'lost restriction')}")


def _guards(entry: ForeignEntry) -> bool:
    return entry.fate.guards and entry.fate.fate == "not applied"


_ENTRIES = Listing[ForeignEntry](
    Column("place", lambda one: one.place),
    Column("kind", lambda one: one.kind),
    Column("name", lambda one: one.name),
    Column("here", lambda one: one.fate.fate + " (guards)" * _guards(one)),
    Column("how or why", lambda one: one.fate.told, drop=1, flexible=True),
    otherwise="no files of other systems here",
)
