"""`swarm compat`: the fate here of everything in other systems' settings files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import gather
from swarm.core.settings import load_settings
from swarm.definitions.codex import read_codex_table
from swarm.definitions.foreign_keys import KeyFate, fate_of, list_settings
from swarm.definitions.jsonc import read_table
from swarm.definitions.sources import Unusable, show_place


class _FileKey(NamedTuple):
    file: str
    key: str
    fate: KeyFate


def show_compat(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The workspace.", show_default="here")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """List what settings of Claude Code, OpenCode and Codex mean here.

    Each key is applied, applied differently, or not applied, with the reason. Unusable rules, hooks and servers follow as problems.
    """
    folder, home = find_workspace(path), Path.home()
    found: list[_FileKey] = []
    for file, system in list_settings(folder, home):
        try:
            content = read_codex_table(file) if system == "codex" else read_table(file)
        except Unusable:
            continue  # one of the problems
        shown = show_place(file, folder, home)
        found += [_FileKey(shown, str(key), fate_of(system, str(key), value)) for key, value in content.items()]
    problems = gather(folder, load_settings()).problems
    if as_json:
        keys = [{"file": one.file, "key": one.key, **one.fate._asdict()} for one in found]
        print_json({"keys": keys, "problems": [problem.model_dump() for problem in problems]})
        return
    _KEYS.show(found)
    for problem in problems:
        print_note(f"problem: {problem}")
    lost = sum(one.fate.fate == "not applied" for one in found)
    print_note(f"{show_number(len(found), 'key')}, {lost} not applied; {show_number(len(problems), 'problem')}")


_KEYS = Listing[_FileKey](
    Column("file", lambda one: one.file),
    Column("key", lambda one: one.key),
    Column("here", lambda one: one.fate.fate + " (guards)" * (one.fate.guards and one.fate.fate == "not applied")),
    Column("how or why", lambda one: one.fate.told, drop=1, flexible=True),
    otherwise="no settings files of other systems here",
)
