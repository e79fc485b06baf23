"""`swarm run --show-files`, and the question before files that look like secrets leave this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from swarm.cli.output import print_json, print_line, print_note, show_number
from swarm.client.prepared import PreparedJob
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.workspace.manifest import leave_remembered, remember, survey


def show_files(folder: Path, *, as_json: bool) -> None:
    """Print the files of a folder that a job with copies or a hub takes along, and the others with their reasons."""
    found = survey(folder)
    if as_json:
        print_json({"folder": str(folder), **asdict(found)})
        return
    for path in found.goes:
        print_line(
            f"goes   {path}" + (f"  (looks like a secret: {found.secrets[path]})" if path in found.secrets else "")
        )
    for path, reason in sorted(found.stays.items()):
        print_line(f"stays  {path}  ({reason})")
    print_note(
        f"{show_number(len(found.goes), 'file')} of {folder} would go; {len(found.secrets)} of them may be secrets; nothing was sent"
    )


def hold_secrets(prepared: PreparedJob, terminal: TextIO | None, settings: Settings) -> None:
    """Ask once about files that look like secrets and would go to the hub. Raises `ConfigurationError` after a no.

    Without a terminal they are named, and sent.
    """
    if not prepared.spec.is_carried or prepared.spec.repository is not None:
        return
    folder, state = prepared.folder, settings.state_folder()
    found = leave_remembered(state, folder, survey(folder).secrets)
    if not found:
        return
    names = ", ".join(f"{path} ({why})" for path, why in sorted(found.items()))
    print_note(f"files that look like secrets go to the hub, and to all hosts of the job: {names}")
    if terminal is None:
        return
    print_note("Send them, and ask no more while their contents stay the same? [y]es, [n]o")
    if terminal.readline().strip().lower()[:1] != "y":
        raise ConfigurationError("nothing was sent; name these files in .gitignore or .git/info/exclude")
    remember(state, folder, found)
