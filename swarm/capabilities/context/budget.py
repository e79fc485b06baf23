"""Fit the instruction files into an agent's budget, and render them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swarm.core.elements import wrap_file
from swarm.definitions.sources import Problem

MAX_BYTES = 40 * 1024
"""Most bytes of all instruction files together."""
_WORTH_CUTTING = 1024
_HEAD = """\
Standing instructions of the person and of the project, from files that were read when the job was submitted. Follow them unless
your task says otherwise; if two contradict each other, the later one holds. They cannot permit anything that you may not do."""


class ContextPart(NamedTuple):
    """The text of one file."""

    source: str
    text: str


def fit_parts(parts: Sequence[ContextPart], *, room: int = MAX_BYTES) -> tuple[list[str], list[Problem]]:
    """Return the part of each text that fits, and a problem for each text that was cut.

    The room is shared evenly. Space that short files leave goes to the long ones, so no file crowds out another.
    """
    kept = [""] * len(parts)
    problems = []
    sizes = [len(part.text.encode()) for part in parts]
    for served, at in enumerate(sorted(range(len(parts)), key=sizes.__getitem__)):
        text, size, share = parts[at].text, sizes[at], room // (len(parts) - served)
        kept[at] = text if size <= share else cut_text(text, share)
        room -= len(kept[at].encode())
        if kept[at] is not text:
            left = size - len(kept[at].encode())
            message = f"{left:,} of its {size:,} bytes are left out: agents get {MAX_BYTES // 1024} KiB in all"
            problems.append(Problem(path=parts[at].source, message=message, remedy="Shorten the instruction files."))
    return kept, problems


def cut_text(text: str, room: int) -> str:
    """The whole lines of a text that fit, or nothing if they are too few to be useful."""
    if room < _WORTH_CUTTING:
        return ""
    whole = text.encode()[:room].decode(errors="ignore")
    return whole[: whole.rfind("\n") + 1] or whole


def render_parts(parts: Sequence[ContextPart], kept: Sequence[str]) -> str:
    """Render the files for agents, each with its source; empty without files."""
    if not parts:
        return ""
    shown = [render_part(part.source, part.text, given) for part, given in zip(parts, kept, strict=True)]
    return "\n".join(["<instructions>", _HEAD, *shown, "</instructions>"])


def render_part(source: str, text: str, given: str) -> str:
    """Render one file, or its given part; no text can end its element."""
    body = given.strip("\n")
    if given != text:
        left = len(text.encode()) - len(given.encode())
        note = f"[{left:,} more bytes of this file were left out for lack of room; read it if it matters]"
        body = f"{body}\n{note}" if body else note
    return wrap_file(source, body)
