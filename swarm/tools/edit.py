"""The tools that change files: Write replaces a whole file, Edit one passage of it, NotebookEdit one cell.

Guarantee: none overwrites text that the agent has not seen. An existing file must have been read, and be unchanged
since. The check and the replacement are one step (see `swarm.workspace.files`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.notebooks import CELL_TYPES, EDIT_MODES, change_notebook, parse_notebook
from swarm.tools.schemas import boolean, choice, string
from swarm.workspace import (
    TextEncoding,
    decode_text,
    is_output,
    open_file,
    refuse_git_internals,
    replace_file,
    require_unchanged,
    resolve_path,
    shown,
)

MAX_EDIT_BYTES = 50 * 1024 * 1024
_CONTEXT_LINES = 3
_SNIPPET_LINES = 40
_SNIPPET_LINE_CHARACTERS = 400


@dataclass(frozen=True)
class _FileChange:
    """A change of a file that is checked and not yet made."""

    path: Path
    data: bytes
    seen: int | None
    """The file's mtime in ns when the agent read it; None: there is no file."""
    will: str
    """The effect, for the deciding person."""
    done: str
    """The result, for the model."""


def _make(ctx: ToolContext, change: _FileChange) -> ToolResult:
    ctx.files_read[str(change.path)] = replace_file(ctx.workspace, change.path, change.data, seen_mtime_ns=change.seen)
    return ToolResult(text=change.done)


def write_file(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Create a file, or replace one that was read before."""
    return _make(ctx, _plan_write(ctx, given))


def edit_file(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Replace `old_string` by `new_string`, once or everywhere, keeping line endings and encoding."""
    return _make(ctx, _plan_edit(ctx, given))


def edit_notebook(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Replace, insert or delete one cell of a notebook that was read before."""
    return _make(ctx, _plan_cell(ctx, given))


def _plan_write(ctx: ToolContext, given: dict[str, Any]) -> _FileChange:
    path = _changeable(ctx, given["file_path"])
    content: str = given["content"]
    data = _encoded(TextEncoding("utf-8"), content)
    existed = os.path.exists(path)
    seen = ctx.files_read.get(str(path)) if existed else None
    require_unchanged(ctx.workspace, path, seen)
    lines = content.count("\n") + bool(content and not content.endswith("\n"))
    size = f"{ctx.show(path)} ({lines:,} lines, {len(data):,} bytes)"
    if existed:
        return _FileChange(path, data, seen, f"it replaces {size}", f"Replaced {size}.")
    return _FileChange(path, data, seen, f"it creates {size}", f"Created {size}.")


def _plan_edit(ctx: ToolContext, given: dict[str, Any]) -> _FileChange:
    path = _changeable(ctx, given["file_path"])
    everywhere = bool(given.get("replace_all", False))
    name, seen = _seen(ctx, path)
    text, encoding = _load(ctx.workspace, path, seen)
    if parse_notebook(name, text) is not None:
        raise ToolError(f"{name} is a notebook; change its cells with {NOTEBOOK_EDIT.name}, or replace it with Write")
    old, new = _in_file_endings(text, given["old_string"], given["new_string"])
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change")
    count = text.count(old)
    if count == 0:
        raise ToolError(_not_found(name, text, given["old_string"]))
    if count > 1 and not everywhere:
        raise ToolError(
            f"old_string matches {count} times in {name} (lines {_match_lines(text, old)}); add surrounding lines "
            "until it is unique, or set replace_all to change every match"
        )
    first = text.index(old)
    changed = text.replace(old, new)
    data = _encoded(encoding, changed)
    matches = f"{count} matches" if count > 1 else "1 match"
    where = " The first of them:" if count > 1 else ""
    done = f"Changed {name} ({matches} replaced).{where}\n{_snippet(changed, first, len(new))}"
    lines = f"line{'s' if count > 1 else ''} {_match_lines(text, old)}"
    return _FileChange(
        path, data, seen, f"it changes {name} from {lines} on" if count == 1 else f"it changes {name} at {lines}", done
    )


def _plan_cell(ctx: ToolContext, given: dict[str, Any]) -> _FileChange:
    path = _changeable(ctx, given["notebook_path"])
    name, seen = _seen(ctx, path)
    text, encoding = _load(ctx.workspace, path, seen)
    notebook = parse_notebook(name, text)
    if notebook is None:
        raise ToolError(f"{name} is no notebook (.ipynb) with cells; change it with Edit")
    changed, done = change_notebook(text, notebook, given, ctx.tool_use_id)
    return _FileChange(path, _encoded(encoding, changed), seen, f"it changes a cell of {name}", f"{name}: {done}.")


def _seen(ctx: ToolContext, path: Path) -> tuple[str, int]:
    """A file's name, and its time when the agent read it."""
    name, seen = ctx.show(path), ctx.files_read.get(str(path))
    if not os.path.exists(path):
        raise ToolError(f"{name} does not exist; create it with Write")
    if seen is None:
        raise ToolError(f"you have not read {name}; Read it first")
    return name, seen


def _changeable(ctx: ToolContext, given: str) -> Path:
    if ctx.read_only:
        raise ToolError("this agent is read-only and changes no files; report what should be changed instead")
    if is_output(given):
        raise ToolError(f"{given} is kept output, not a file; give a path in the workspace")
    path = resolve_path(ctx.workspace, given)
    if path == ctx.workspace or os.path.isdir(path):
        raise ToolError(f"{given} is a folder; give the path of a file")
    refuse_git_internals(ctx.workspace, path)
    return path


def _load(workspace: Path, path: Path, seen: int) -> tuple[str, TextEncoding]:
    name = shown(workspace, path)
    opened, status = open_file(workspace, path)
    with os.fdopen(opened, "rb") as file:
        if status.st_mtime_ns != seen:
            raise ToolError(f"{name} has changed since you read it; Read it again, then repeat the change")
        if status.st_size > MAX_EDIT_BYTES:
            raise ToolError(f"{name} has {status.st_size:,} bytes, too many for Edit; change it with a shell command")
        decoded = decode_text(file.read())
    if decoded is None:
        raise ToolError(f"{name} is binary and cannot be edited as text")
    return decoded


def _encoded(encoding: TextEncoding, text: str) -> bytes:
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        bad = text[error.start : error.start + 1]
        raise ToolError(f"the new text contains {bad!r}, which the encoding {encoding.codec} does not have") from error


def _in_file_endings(text: str, old: str, new: str) -> tuple[str, str]:
    """Give both strings the file's own line endings, which a model does not see and writes as `\\n`."""
    if not old:
        raise ToolError("old_string is empty; give the passage to replace, or use Write for a whole file")
    windows = text.count("\r\n")
    if not windows or (old in text and ("\n" in old or windows * 2 < text.count("\n"))):
        return old, new
    crlf_old = re.sub(r"\r?\n", "\r\n", old)
    return (crlf_old, re.sub(r"\r?\n", "\r\n", new)) if crlf_old in text else (old, new)


def _match_lines(text: str, old: str) -> str:
    lines: list[str] = []
    position = text.find(old)
    while position >= 0 and len(lines) < 10:
        lines.append(str(text.count("\n", 0, position) + 1))
        position = text.find(old, position + len(old))
    return ", ".join(lines) + (", …" if position >= 0 else "")


def _not_found(name: str, text: str, old: str) -> str:
    message = f"old_string does not occur in {name} (0 matches)"
    if all(re.match(r"\s*\d+\t", line) for line in old.splitlines() if line):
        return f"{message}; leave out the line numbers that Read puts before each line"
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    for number, line in enumerate(text.splitlines(), start=1):
        if wanted and line.strip() == wanted:
            return f"{message}; line {number} is similar, so compare the white space and the lines after it"
    return f"{message}; Read the passage again and copy it exactly"


def _snippet(text: str, start: int, length: int) -> str:
    """The changed lines and a few around them, numbered as Read numbers them."""
    lines = text.split("\n")
    first = max(text.count("\n", 0, start) - _CONTEXT_LINES, 0)
    last = min(text.count("\n", 0, start + length) + _CONTEXT_LINES + 1, len(lines))
    numbered = [
        f"{number:>6}\t{line.rstrip(chr(13))[:_SNIPPET_LINE_CHARACTERS]}"
        for number, line in enumerate(lines[first:last], start=first + 1)
    ]
    if len(numbered) > _SNIPPET_LINES:
        half = _SNIPPET_LINES // 2
        numbered[half:-half] = [f"      \t[… {len(numbered) - 2 * half} lines …]"]
    return "\n".join(numbered)


_FILE_PATH = string("Path in the workspace, relative or absolute.")

WRITE = Tool(
    name="Write",
    description=(
        "Write a whole file, making the folders it needs. A file that already exists is replaced, and must "
        "have been read before; prefer Edit for changing a part of it."
    ),
    parameters={"file_path": _FILE_PATH, "content": string("The whole new text.")},
    required=["file_path", "content"],
    run=write_file,
    foresee=lambda ctx, given: _plan_write(ctx, given).will,
)

EDIT = Tool(
    name="Edit",
    description=(
        "Replace a passage of a file that you have read. `old_string` must be exactly the file's text, indentation "
        "included and line numbers not, and occur once; `replace_all` changes every occurrence instead."
    ),
    parameters={
        "file_path": _FILE_PATH,
        "old_string": string("The text to replace."),
        "new_string": string("The text to put there."),
        "replace_all": boolean("Replace every occurrence. Default: false."),
    },
    required=["file_path", "old_string", "new_string"],
    run=edit_file,
    foresee=lambda ctx, given: _plan_edit(ctx, given).will,
)

NOTEBOOK_EDIT = Tool(
    name="NotebookEdit",
    description=(
        "Change one cell of a Jupyter notebook (.ipynb) that you have read: replace its source, insert a new cell after it, or delete it. "
        "A replaced code cell loses its outputs; nothing is run."
    ),
    parameters={
        "notebook_path": _FILE_PATH,
        "cell_id": string("The cell, by the id that Read shows. To insert: the one before; left out, the beginning."),
        "new_source": string("The cell's whole text; not for a deletion."),
        "cell_type": choice(CELL_TYPES, "Default: unchanged; code for a new cell."),
        "edit_mode": choice(EDIT_MODES, "Default: replace."),
    },
    required=["notebook_path"],
    run=edit_notebook,
    foresee=lambda ctx, given: _plan_cell(ctx, given).will,
)
