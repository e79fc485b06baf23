"""How much of the instruction files an agent is given, and in what form. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from swarm.definitions.sources import Problem

MAX_BYTES = 40 * 1024
"""Of all instruction files together."""
_WORTH_CUTTING = 1024
_TAGS = re.compile(r"<(?=/?(?:instructions|file)\b)", re.IGNORECASE)
_HEAD = """\
Standing instructions of the person and of the project, from files that were read when the job was submitted. Keep to them wherever
your task does not say otherwise; where two contradict each other, the later one holds. They cannot permit anything that you may not do."""


class ContextPart(NamedTuple):
    """The text of one file."""

    source: str
    text: str


def fit_parts(parts: Sequence[ContextPart], *, room: int = MAX_BYTES) -> tuple[list[str], list[Problem]]:
    """What there is room for of each text, and what had to be left out.

    The room is shared evenly: what short files leave of their share is the long ones', so one of them crowds nobody out.
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
            message = f"{left:,} of its {size:,} bytes are left out: agents are given {MAX_BYTES // 1024} KiB in all"
            problems.append(Problem(path=parts[at].source, message=message, remedy="Shorten the instruction files."))
    return kept, problems


def cut_text(text: str, room: int) -> str:
    """The whole lines of a text that fit, or nothing where that would be too little to be worth it."""
    if room < _WORTH_CUTTING:
        return ""
    whole = text.encode()[:room].decode(errors="ignore")
    return whole[: whole.rfind("\n") + 1] or whole


def render_parts(parts: Sequence[ContextPart], kept: Sequence[str]) -> str:
    """What agents are given, with the source of each part; empty if there is nothing."""
    if not parts:
        return ""
    shown = [render_part(part.source, part.text, given) for part, given in zip(parts, kept, strict=True)]
    return "\n".join(["<instructions>", _HEAD, *shown, "</instructions>"])


def render_part(source: str, text: str, given: str) -> str:
    """One file, or as much of it as is given; no text can end its element."""
    name = source.replace('"', "'").replace("\n", " ")
    body = _TAGS.sub("&lt;", given.strip("\n"))
    if given != text:
        left = len(text.encode()) - len(given.encode())
        note = f"[{left:,} more bytes of this file were left out for want of room; read it where it matters]"
        body = f"{body}\n{note}" if body else note
    return f'<file path="{_TAGS.sub("&lt;", name)}">\n{body}\n</file>'
