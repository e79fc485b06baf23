"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h` or `1h30m`."""
    found = _DURATION.fullmatch(str(text).strip().lower())
    if found is None or not any(found.groups()):
        raise typer.BadParameter(f"{text!r} is no duration; write 90, 90s, 10m or 2h")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = hours * 3_600 + minutes * 60 + seconds
    if total <= 0:
        raise typer.BadParameter("a duration must be longer than nothing")
    return total


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
WorkspaceOption = Annotated[
    Path,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="The folder the agents work in.", show_default="here"),
]
JobArgument = Annotated[
    str | None, typer.Argument(metavar="[JOB]", help="A job's id or the beginning of it; default: the newest job.")
]
