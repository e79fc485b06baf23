"""Instruction files and rules below the workspace's folder: an agent gets them with the first file it reads there.

They are read on that occasion, from the workspace as the agent sees it, and cannot import from outside it. Rules of the workspace's own
folder were read when the job was submitted.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence, Set
from pathlib import Path

from swarm.capabilities.context.budget import ContextPart, cut_text, render_part
from swarm.capabilities.context.instructions import MAX_HOPS, Instructions
from swarm.capabilities.context.rules import PathRule, find_imports, read_globs, strip_comments
from swarm.core.errors import ToolError
from swarm.definitions.sources import Unusable
from swarm.permissions.sandbox.names import INSTRUCTIONS
from swarm.workspace import open_file, resolve_path, shown, sniff_encoding

MAX_BYTES = 16 * 1024
"""Most bytes of instruction files with one result."""
_MAX_FILE_BYTES = 64 * 1024
_MAX_RULES = 50
_HEAD = "These instruction files apply to the file you just read:"

MayRead = Callable[[Path], bool]


def find_reached(
    workspace: Path, path: Path, known: Instructions, given: Set[str], *, may_read: MayRead
) -> list[ContextPart]:
    """Return the files that apply to `path`, except those `given` before, by source.

    `known` are the files found at submission.
    """
    if not path.is_relative_to(workspace):
        return []
    relative = path.relative_to(workspace)
    parts: dict[str, ContextPart] = {}

    def applies(place: Path) -> bool:
        return os.path.isfile(workspace / place) and not known.excludes.leaves_out_below(place)

    for folder in reversed([folder for folder in relative.parents if folder != Path()]):
        for names in INSTRUCTIONS:
            found = next((workspace / folder / name for name in names if applies(folder / name)), None)
            if found is not None and found != path:
                _read(workspace, found, parts, may_read)
        rules = (workspace / folder / ".claude" / "rules").rglob("*.md")
        for rule in sorted(itertools.islice(rules, _MAX_RULES)):
            if applies(rule.relative_to(workspace)):
                _read(workspace, rule, parts, may_read, about=relative.relative_to(folder).as_posix())
    for one in known.rules:
        if one.matches(relative.as_posix()):
            parts.setdefault(one.source, ContextPart(one.source, one.text))
    return [part for source, part in parts.items() if source not in given]


def render_reached(parts: Sequence[ContextPart]) -> str:
    """Render the parts after a result."""
    room, shown_parts = MAX_BYTES, []
    for part in parts:
        size = len(part.text.encode())
        text = part.text if size <= room else cut_text(part.text, room)
        room -= len(text.encode())
        shown_parts.append(render_part(part.source, part.text, text))
    return "\n".join(["", "<instructions>", _HEAD, *shown_parts, "</instructions>"])


def _read(
    workspace: Path, path: Path, parts: dict[str, ContextPart], may_read: MayRead, hops: int = 0, about: str = ""
) -> None:
    """Add a file and its imports; skip unreadable and forbidden files, and rules for other files than `about`."""
    try:
        real = resolve_path(workspace, str(path))
        name = shown(workspace, real)
        if name in parts or not may_read(real):
            return
        opened, _ = open_file(workspace, real)
    except ToolError:
        return
    with open(opened, "rb") as file:
        content = file.read(_MAX_FILE_BYTES)
    encoding = sniff_encoding(content)
    if encoding is None:
        return
    text = strip_comments(content[len(encoding.bom) :].decode(encoding.codec, errors="replace").replace("\r\n", "\n"))
    try:
        globs, text = read_globs(text) if about else ([], text)
    except Unusable:
        return
    if globs and not PathRule(source=name, text=text, globs=globs).matches(about):
        return
    if text.strip():
        parts[name] = ContextPart(name, text)
    if hops < MAX_HOPS:
        for wanted in find_imports(text):
            if not wanted.startswith("~") and os.path.isfile(real.parent / wanted):
                _read(workspace, real.parent / wanted, parts, may_read, hops + 1)
