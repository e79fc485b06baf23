"""The tool `Memory`: six commands on pages, like the Messages API's memory tool, errors included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swarm.capabilities.memory.mounts import ROOT, TEAM, Mounts, find_mounts, read_path
from swarm.capabilities.memory.pages import Author, Change, Memories
from swarm.core.errors import MemoryRefused, ToolError
from swarm.core.secrets import strip_secrets
from swarm.definitions.memory_stores import MemoryStore
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import string

_NEEDS = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_DEPTH = 2


class _MemoryCall:
    """One call with its agent's memory and its input."""

    def __init__(self, context: ToolContext, given: dict[str, Any], mounts: Mounts) -> None:
        self.context, self.given, self.mounts = context, given, mounts
        self.memories = Memories(context.store.keyspace, context.most.memory)
        self.removed = 0

    def clean(self, name: str) -> str:
        """Return an input text without its secrets, which are counted."""
        text, removed = strip_secrets(self.given[name])
        self.removed += removed
        return text

    def locate(self, path: str) -> tuple[MemoryStore, str]:
        """Return the memory store and page of a path. Raises `ToolError` for a root."""
        memory_store, page = self.mounts.locate(path)
        if not page:
            raise ToolError(f"The path {self.given['path']} is not a file.")
        return memory_store, page

    def change(self, op: Change, path: str, **given: Any) -> dict[str, Any]:
        """Change a page. Raises `MemoryRefused`."""
        memory_store, page = self.locate(path)
        spec = self.context.spec
        by = spec.name or spec.definition.name
        author = Author(by, job=spec.job_id, agent=spec.agent_id, cause=self.context.cause)
        return self.memories.change(memory_store, op, page, author, **given)


def _run(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    command = given["command"]
    if missing := [name for name in _NEEDS[command] if name not in given]:
        raise ToolError(f"Memory: the command {command} needs `{missing[0]}`.")
    mounts = find_mounts(context.store, context.spec)
    if mounts is None:
        raise ToolError("You have no memory: your definition names no scope for it.")
    call = _MemoryCall(context, given, mounts)
    try:
        text = _COMMANDS[command](call)
    except MemoryRefused as error:
        raise ToolError(_explain(error, given)) from error
    if call.removed:
        text += f"\n[{call.removed} of its values look like secrets and were left out]"
    return ToolResult(text=text)


def _view(call: _MemoryCall) -> str:
    shown, path = call.given["path"], read_path(call.given["path"])
    if path and path != TEAM:
        found = call.memories.read(*call.mounts.locate(path))
        if found is not None:
            span = call.given.get("view_range")
            return f"Here's the content of {shown} with line numbers:\n{_number_lines(found[1], span)}"
    listed = _list_folder({name: page.size for name, page in call.mounts.pages(call.memories)}, path, shown)
    if listed is None:
        raise ToolError(f"The path {shown} does not exist. Please provide a valid path.")
    return listed


def _number_lines(text: str, span: Sequence[int] | None = None) -> str:
    """Number the lines of a page: all, or from the first to the last of `span` (-1: the end)."""
    lines = text.split("\n")
    first = max(1, span[0]) if span else 1
    last = span[1] if span and span[1] != -1 else len(lines)
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[first - 1 : max(last, 0)], start=first))


def _list_folder(pages: Mapping[str, int], folder: str, shown: str) -> str | None:
    """List pages and folders two levels deep with their sizes; None if the folder does not exist (the root does).

    `pages` are sizes by path; `shown` is the folder's name in the answer.
    """
    start = f"{folder}/" if folder else ""
    below = {path.removeprefix(start): size for path, size in pages.items() if path.startswith(start)}
    if not below and folder not in ("", "team"):
        return None
    sizes: dict[str, int] = {}
    for path, size in below.items():
        parts = path.split("/")
        for depth in range(1, min(len(parts), _DEPTH) + 1):
            name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[name] = sizes.get(name, 0) + size
    head = f"Here're the files and directories up to {_DEPTH} levels deep in {shown}, excluding hidden items:"
    base = shown.rstrip("/")
    ordered = sorted(sizes, key=lambda name: name.rstrip("/").split("/"))
    rows = [f"{_show_size(sizes[name])}\t{base}/{name}" for name in ordered]
    return "\n".join([head, f"{_show_size(sum(below.values()))}\t{shown}", *rows])


def _show_size(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    scaled = size / 1024 if size < 1024**2 else size / 1024**2
    unit = "K" if size < 1024**2 else "M"
    return f"{int(scaled)}{unit}" if scaled == int(scaled) else f"{scaled:.1f}{unit}"


def _create(call: _MemoryCall) -> str:
    path = read_path(call.given["path"])
    call.change("create", path, text=call.clean("file_text"))
    return f"File created successfully at: {call.given['path']}"


def _str_replace(call: _MemoryCall) -> str:
    path = read_path(call.given["path"])
    done = call.change("replace", path, old=call.given["old_str"], text=call.clean("new_str"))
    around = done["around"]
    snippet = "\n".join(f"{around['first'] + at:>6}\t{line}" for at, line in enumerate(around["lines"]))
    return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"


def _insert(call: _MemoryCall) -> str:
    path = read_path(call.given["path"])
    call.change("insert", path, line=call.given["insert_line"], text=call.clean("insert_text").rstrip("\n"))
    return f"The file {call.given['path']} has been edited."


def _delete(call: _MemoryCall) -> str:
    path = read_path(call.given["path"])
    if path in ("", TEAM):
        raise ToolError(f"Cannot delete the {call.given['path']} directory itself")
    call.change("delete", path)
    return f"Successfully deleted {call.given['path']}"


def _rename(call: _MemoryCall) -> str:
    old, new = read_path(call.given["old_path"]), read_path(call.given["new_path"])
    if old in ("", TEAM):
        raise ToolError(f"Cannot rename the {call.given['old_path']} directory itself")
    if new in ("", TEAM):
        raise ToolError(f"The destination {call.given['new_path']} already exists")
    (memory_store, _), (other, to) = call.mounts.locate(old), call.mounts.locate(new)
    if memory_store != other:
        raise ToolError(f"A page cannot be moved into or out of {ROOT}/{TEAM}: create it there and delete it here.")
    call.change("rename", old, to=to)
    return f"Successfully renamed {call.given['old_path']} to {call.given['new_path']}"


_COMMANDS: dict[str, Callable[[_MemoryCall], str]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


def _explain(error: MemoryRefused, given: dict[str, Any]) -> str:
    path, command = given.get("path"), given["command"]
    match error.code:
        case "exists":
            return (
                f"The destination {given['new_path']} already exists"
                if command == "rename"
                else f"File {path} already exists"
            )
        case "missing" if command == "rename":
            return f"The path {given['old_path']} does not exist"
        case "missing" if command == "delete":
            return f"The path {path} does not exist"
        case "missing":
            return f"The path {path} does not exist. Please provide a valid path."
        case "no file":
            return f"The path {path} is not a file."
        case "absent":
            return f"No replacement was performed, old_str `{given['old_str']}` did not appear verbatim in {path}."
        case "several":
            lines = ", ".join(map(str, error.about[0]))
            return (
                f"No replacement was performed. Multiple occurrences of old_str `{given['old_str']}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        case "range":
            return (
                f"Invalid `insert_line` parameter: {given['insert_line']}. "
                f"It should be within the range [0, {error.about[0]}]."
            )
        case "within":
            return f"The path {given['old_path']} cannot be moved into itself"
    return f"{str(error)[:1].upper()}{str(error)[1:]}."


MEMORY = Tool(
    name="Memory",
    description=(
        "Your memory, which outlives this job: text pages below /memories. All agents of this project share the pages below "
        "/memories/team. Commands: view (a page or a folder), create (a new page), str_replace (a text that occurs "
        "exactly once), insert (after a line, 0: at the top), delete, rename. Others see at once what you write. "
        "Keep short pages about one thing each; correct what proved wrong. Never put secrets there."
    ),
    parameters={
        "command": {"type": "string", "enum": list(_NEEDS)},
        "path": string("Like /memories/build.md; for all commands except rename."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "Of view: the first and the last line, -1 for the end.",
        },
        "file_text": string("Of create."),
        "old_str": {"type": "string", "minLength": 1},
        "new_str": {"type": "string"},
        "insert_line": {"type": "integer"},
        "insert_text": {"type": "string"},
        "old_path": string("Of rename."),
        "new_path": {"type": "string"},
    },
    required=["command"],
    run=_run,
    activity=lambda given: f"Memory {given['command']} {given.get('path') or given.get('old_path') or ''}".strip(),
)
