"""The Read tool: a page of a text file, an image, or a page of kept output."""

from __future__ import annotations

import base64
import difflib
import io
import mimetypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.images import find_image_fault
from swarm.tools.notebooks import MAX_BYTES as MAX_NOTEBOOK_BYTES
from swarm.tools.notebooks import parse_notebook, show_notebook
from swarm.tools.outputs import MAX_OUTPUT_CHARACTERS
from swarm.tools.schemas import integer, string
from swarm.workspace import is_carried, is_output, open_file, opened_folder, resolve_path, shown, sniff_encoding
from swarm.workspace.text import HEAD_BYTES

DEFAULT_LINES = 2_000
MAX_LINE_CHARACTERS = 2_000
MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
"""The API counts an image's base64 text, four characters for three bytes, against its 5 MB."""
_PIECE = 1 << 20
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def read_file(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Read one page and remember when the file was last changed, which Write and Edit ask for."""
    name: str = given["file_path"]
    offset, limit = int(given.get("offset", 1)), int(given.get("limit", DEFAULT_LINES))
    if is_output(name):
        return _read_output(ctx, name, offset, limit)
    if is_carried(name):
        return _read_carried_file(ctx, name, offset, limit)
    path = resolve_path(ctx.workspace, name)
    if os.path.isdir(path):
        raise ToolError(f"{name} is a folder; use LS to list it")
    if not os.path.exists(path):
        raise ToolError(_missing(ctx.workspace, path, name))
    opened, status = open_file(ctx.workspace, path)
    with open(opened, "rb") as file:
        head = file.read(HEAD_BYTES)
        result = _image(file, head, status) or _page_of_file(ctx, name, file, head, status, offset, limit)
    ctx.files_read[str(path)] = status.st_mtime_ns
    return result


def _missing(workspace: Path, path: Path, given: str) -> str:
    try:
        with opened_folder(workspace, path.parent) as folder, os.scandir(folder) as entries:
            names = [entry.name for _, entry in zip(range(5_000), entries, strict=False)]
    except (OSError, ToolError):
        return f"{given} does not exist; neither does its folder. Use Glob to find the file"
    lowered = {name.lower(): name for name in names}
    near = [lowered[match] for match in difflib.get_close_matches(path.name.lower(), lowered, n=3, cutoff=0.6)]
    hint = ", ".join(shown(workspace, path.parent / name) for name in near)
    return f"{given} does not exist" + (f"; did you mean {hint}?" if hint else ". Use Glob to find the file")


def _image(file: io.BufferedReader, head: bytes, status: os.stat_result) -> ToolResult | None:
    kind = next((kind for magic, kind in _IMAGES if head.startswith(magic)), None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        return None
    if status.st_size > MAX_IMAGE_BYTES:
        raise ToolError(
            f"the image has {status.st_size:,} bytes, more than the {MAX_IMAGE_BYTES:,} that can be shown; "
            "make a smaller copy of it first"
        )
    content = head + file.read()
    if fault := find_image_fault(kind, content):
        raise ToolError(f"the image cannot be shown: {fault}")
    data = base64.b64encode(content).decode("ascii")
    block = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return ToolResult(text=f"[{kind}, {status.st_size:,} bytes]", blocks=[block])


def _page_of_file(
    ctx: ToolContext, name: str, file: io.BufferedReader, head: bytes, status: os.stat_result, offset: int, limit: int
) -> ToolResult:
    encoding = sniff_encoding(head)
    if encoding is None:
        kind = mimetypes.guess_type(name)[0] or "unknown type"
        raise ToolError(f"{name} is binary ({kind}, {status.st_size:,} bytes) and cannot be read as text")
    if not head:
        return ToolResult(text=f"[{name} is empty]")
    file.seek(len(encoding.bom))
    if name.lower().endswith(".ipynb") and status.st_size <= MAX_NOTEBOOK_BYTES:
        notebook = parse_notebook(name, file.read().decode(encoding.codec, errors="replace"))
        if notebook is not None:
            cells = io.StringIO(show_notebook(notebook), newline="\n")
            return ToolResult(text=page_lines(ctx, _cut_lines(ctx, cells), offset, limit))
        file.seek(len(encoding.bom))
    # Only "\n" ends a line: an edit must find exactly the characters that were shown.
    with io.TextIOWrapper(file, encoding=encoding.codec, errors="replace", newline="\n") as text:
        return ToolResult(text=page_lines(ctx, _cut_lines(ctx, text), offset, limit))


def _read_output(ctx: ToolContext, handle: str, offset: int, limit: int) -> ToolResult:
    text = ctx.outputs.load(handle)
    if text is None:
        raise ToolError(
            f"nothing is kept under {handle}; its handle is in the note of the cut output, or later ones have its room"
        )
    if not text:
        return ToolResult(text=f"[{handle} is empty]")
    return ToolResult(text=page_lines(ctx, folded_lines(text), offset, limit))


def _read_carried_file(ctx: ToolContext, name: str, offset: int, limit: int) -> ToolResult:
    read = next((read for prefix, read in ctx.carried_files.items() if name.startswith(prefix)), None)
    if read is None:
        raise ToolError(f"{name}: there are no such files here")
    data = read(name)
    head = data[:HEAD_BYTES]
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(len(head))
        status = os.stat(file.fileno())
        return _image(file, head, status) or _page_of_file(ctx, name, file, head, status, offset, limit)  # type: ignore[arg-type]


def _cut_lines(ctx: ToolContext, text: TextIO) -> Iterator[str]:
    """The lines of a file, each at most `MAX_LINE_CHARACTERS` long, without ever holding a longer one."""
    while piece := text.readline(_PIECE):
        ctx.check()
        length, line = len(piece), piece[:MAX_LINE_CHARACTERS]
        while not piece.endswith("\n") and (piece := text.readline(_PIECE)):
            ctx.check()
            length += len(piece)
        if length > MAX_LINE_CHARACTERS + 2:
            line += f" [… line cut: it has {length:,} characters]"
        yield line.rstrip("\r\n")


def folded_lines(text: str) -> Iterator[str]:
    """The lines of kept output; a long one becomes several, because nothing else can show the rest of it."""
    for line in io.StringIO(text, newline="\n"):
        line = line.rstrip("\r\n")
        for start in range(0, max(len(line), 1), MAX_LINE_CHARACTERS):
            yield line[start : start + MAX_LINE_CHARACTERS]


def page_lines(ctx: ToolContext, lines: Iterator[str], offset: int, limit: int) -> str:
    """The lines from number `offset` on, each with its number: at most `limit`, and no more than a result may hold."""
    page: list[str] = []
    room = MAX_OUTPUT_CHARACTERS - 200
    number = 0
    for number, line in enumerate(lines, start=1):
        if number < offset:
            continue
        numbered = f"{number:>6}\t{line}"
        room -= len(numbered) + 1
        if len(page) == limit or (room < 0 and page):
            page.append(f"[… more follows; continue with offset={number}]")
            return "\n".join(page)
        page.append(numbered)
    if not page:
        return f"[there is no line {offset}: the last line is {number}]"
    return "\n".join(page)


READ = Tool(
    name="Read",
    description=(
        "Read a text file of the workspace, by page: every line comes with its number, a tab, and its text. "
        f"Without `limit` up to {DEFAULT_LINES:,} lines; lines over {MAX_LINE_CHARACTERS:,} characters are cut. "
        "Images (PNG, JPEG, GIF, WebP) are shown, and the cells of notebooks. A handle such as output:KEY, given where a long result "
        "was cut, reads the kept text. Read a file before you change it."
    ),
    parameters={
        "file_path": string("Path in the workspace, or an output: handle."),
        "offset": integer("First line to show, counted from 1.", minimum=1),
        "limit": integer("How many lines to show at most.", minimum=1),
    },
    required=["file_path"],
    run=read_file,
)
