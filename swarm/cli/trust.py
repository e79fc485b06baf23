"""`swarm trust`, and the question at `swarm run`: decide on grants in a workspace's files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from swarm.cli.grants import list_grants
from swarm.cli.options import JsonOption
from swarm.cli.output import message_console, output_console, plain, print_json, print_line, print_note, show_number
from swarm.client.preparation import Trust, find_workspace
from swarm.client.prepared import PreparedJob, list_lost
from swarm.client.project import gather, is_trusted
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings, load_settings
from swarm.definitions.grants import Grant
from swarm.permissions.trust import TrustStore


def trust(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The workspace.", show_default="here")] = Path(),
    show: Annotated[bool, typer.Option("--show", help="Only list the grants.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust it no longer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust grants in a workspace's files: allow rules, modes, replacements of shipped agents, and jobs without lost restrictions.

    Such files may come from a clone or an agent, so untrusted ones can only restrict. A change of their requests needs a new approval.
    """
    if show and revoke:
        raise typer.BadParameter("--show and --revoke exclude each other")
    settings = load_settings()
    folder = find_workspace(path)
    store = TrustStore(settings.state_folder())
    if revoke:
        print_note(f"no longer trusted: {folder}" if store.revoke(folder) else f"it was not trusted: {folder}")
        return
    found, last = gather(folder, settings), store.last(folder)
    grants, lost = found.grants, list_lost(found)
    was_trusted = store.is_trusted(folder, grants)
    if not show:
        _approve(store, folder, grants, lost)
    trusted = is_trusted(folder, settings)
    if as_json:
        print_json({"workspace": str(folder), "trusted": trusted, "grants": [grant.model_dump() for grant in grants]})
        return
    for line in [
        *list_grants(grants, output_console(), () if was_trusted else last),
        *list_grants(lost, output_console()),
    ]:
        print_line(line)
    where = plain(str(folder))
    if grants or lost:
        print_note(f"{'trusted' if trusted else 'not trusted'}: {show_number(len(grants), 'grant')} of {where}")
    else:
        print_note(f"the files in {where} ask for no grants; there is nothing to trust")


def _approve(store: TrustStore, folder: Path, grants: Sequence[Grant], lost: Sequence[Grant]) -> None:
    if grants:
        store.trust(folder, grants)
    if lost:
        store.trust(folder, lost, keep=False)


def asking_at(terminal: TextIO | None, settings: Settings) -> Trust | None:
    """A trust decision by the person at this terminal, if there is one."""
    return None if terminal is None else partial(_ask, settings=settings, terminal=terminal)


def hold_unguarded(prepared: PreparedJob, terminal: TextIO | None, settings: Settings) -> None:
    """Stop a job for which restrictions in files do not hold here, until the person has agreed once.

    Raises `ConfigurationError`.
    """
    lost, store = prepared.unguarded, TrustStore(settings.state_folder())
    if not lost or store.is_trusted(prepared.folder, lost):
        return
    told = f"{show_number(len(lost), 'restriction')} in settings files cannot be applied here"
    if terminal is not None:
        print_note(f"{told}:")
        for line in list_grants(lost, message_console()):
            print_note(line)
        print_note("Start without them, as long as they do not change? [y]es, [n]o")
        if terminal.readline().strip().lower()[:1] == "y":
            store.trust(prepared.folder, lost, keep=False)
            return
    sources = ", ".join(dict.fromkeys(one.source for one in lost))
    command = f"`swarm trust {shlex.quote(str(prepared.folder))}`"
    raise ConfigurationError(
        f"{told} ({sources}); `swarm compat` lists them, and {command} lets jobs start without them"
    )


def _ask(folder: Path, grants: Sequence[Grant], settings: Settings, terminal: TextIO) -> bool:
    """Show the grants and ask; a yes is stored. Raises `ConfigurationError` to stop the command."""
    store = TrustStore(settings.state_folder())
    last = store.last(folder)
    changed = ", not as you trusted it" if last else ""
    print_note(f"Files in {plain(str(folder))} would allow agents more than you have allowed{changed}:")
    for line in list_grants(grants, message_console(), last):
        print_note(line)
    while True:
        print_note("Trust them, as long as they do not change? [y]es, [n]o: continue without, [s]top")
        answer = terminal.readline()
        match answer.strip().lower()[:1]:
            case "y":
                store.trust(folder, grants)
                return True
            case "n":
                return False
            case "s" | "":
                if answer.strip() or not answer:
                    raise ConfigurationError("stopped; nothing was started. `swarm trust --show` lists the grants")
