"""The tools that find things: Glob by name, Grep by content, LS by folder.

All three stay in the workspace and follow no links; Glob and Grep leave out what `.gitignore` does, and Git's own data.
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.outputs import fit
from swarm.tools.ripgrep import Matches, run_ripgrep
from swarm.tools.schemas import boolean, integer, string, strings
from swarm.workspace import is_output, open_file, opened_folder, resolve_path

MAX_FILES = 1_000
MAX_ENTRIES = 1_000
DEFAULT_HEAD = 250
MAX_LINE_CHARACTERS = 2_000
_NOT_GIT = "--glob=!.git"
_CONTEXT = re.compile(r"\d+-")
_META = re.compile(r"[*?\[{!]")


def _folder(ctx: ToolContext, given: str) -> Path:
    path = resolve_path(ctx.workspace, given)
    if not os.path.isdir(path):
        raise ToolError(f"{given} is not a folder" if os.path.exists(path) else f"{given} does not exist")
    return path


def _ignoring(ctx: ToolContext, base: Path) -> list[str]:
    """Return options for ignore files: the workspace's own, with or without a repository, and none from above it."""
    return [
        "--hidden",
        "--no-require-git",
        "--no-ignore-global",
        *(["--no-ignore-parent"] if base == ctx.workspace else []),
    ]


def _prefix(ctx: ToolContext, base: Path) -> str:
    return "" if ctx.show(base) == "." else f"{ctx.show(base)}/"


# -- Glob -------------------------------------------------------------------------------------------------


def find_files(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Find files whose path matches, the latest change first."""
    base, pattern = _folder(ctx, given.get("path") or "."), given["pattern"]
    if os.path.isabs(pattern):
        fixed = os.path.dirname(pattern[: match.start()] if (match := _META.search(pattern)) else pattern)
        base, pattern = _folder(ctx, fixed), pattern[len(fixed) :].lstrip("/")
    pattern = pattern.removeprefix("./")
    if ".." in pattern.split("/"):
        raise ToolError("a pattern cannot contain '..'; give another `path` instead")
    listing = ["--files", "--null", *_ignoring(ctx, base)]
    with opened_folder(ctx.workspace, base) as folder:
        matching = run_ripgrep(ctx, [*listing, f"--glob={pattern}", _NOT_GIT, "./"], folder, separator=b"\0")
        names = set(matching.items)
        if names:
            # In ripgrep a glob outranks .gitignore, so only a listing without a glob shows the ignored files.
            names &= set(run_ripgrep(ctx, [*listing, _NOT_GIT, "./"], folder, separator=b"\0").items)
        changed = {name: _mtime(folder, name) for name in names}
    if ctx.may_read is not None:
        names = {name for name in names if ctx.may_read(base / name)}
    if not names:
        return ToolResult(text=f"No file matches {given['pattern']}.")
    prefix = _prefix(ctx, base)
    newest = sorted(names, key=lambda name: (-changed[name], name))
    lines = [prefix + name.removeprefix("./") for name in newest[:MAX_FILES]]
    if len(newest) > MAX_FILES:
        lines.append(f"[the {MAX_FILES:,} newest of {len(newest):,} files; narrow the pattern or the path]")
    return ToolResult(text=fit(ctx.outputs, ctx.tool_use_id, "\n".join(lines)))


def _mtime(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


# -- Grep -------------------------------------------------------------------------------------------------


def search_content(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Lines, files or counts that match a regular expression."""
    limit = int(given.get("head_limit", DEFAULT_HEAD)) or None
    options = _grep_options(given)
    where = given.get("path") or "."
    if is_output(where):
        text = ctx.outputs.load(where)
        if text is None:
            raise ToolError(f"nothing is kept under {where}")
        found = run_ripgrep(ctx, ["--no-filename", *options, "-"], text=text, max_items=limit)
        lines = [line.replace("\0", "") for line in found.items]
    else:
        base, name, narrowing = _scope(ctx, where, given)
        arguments = [*_ignoring(ctx, base), "--sort=path", "--with-filename", *narrowing, *options, "--"]
        if name is None:
            with opened_folder(ctx.workspace, base) as folder:
                found = run_ripgrep(ctx, [*arguments, "./"], folder, max_items=limit)
        else:
            found = _search_file(ctx, base / name, arguments, limit)
        prefix = _prefix(ctx, base)
        lines = [line for item in found.items if (line := _grep_line(ctx, base, prefix, item)) is not None]
    if not lines:
        return ToolResult(text=f"Nothing matches {given['pattern']!r}.")
    text = fit(ctx.outputs, ctx.tool_use_id, "\n".join(lines))
    note = (
        f"\n[stopped after {len(lines):,} lines; narrow the search, or set head_limit (0: no limit)]"
        if found.cut
        else ""
    )
    return ToolResult(text=text + note)


def _search_file(ctx: ToolContext, path: Path, arguments: list[str], limit: int | None) -> Matches:
    opened, _ = open_file(ctx.workspace, path)
    try:
        place = f"/dev/fd/{opened}"
        found = run_ripgrep(ctx, [*arguments, place], file=opened, max_items=limit)
    finally:
        os.close(opened)
    named = [path.name + item.removeprefix(place) if item.startswith(place) else item for item in found.items]
    return Matches(named, found.cut)


def _grep_line(ctx: ToolContext, base: Path, prefix: str, item: str) -> str | None:
    """A line of the search as it is shown; None for one of a file that may not be read."""
    if item == "--":
        return item  # between two groups of context
    path, _, rest = item.partition("\0")
    if ctx.may_read is not None and not ctx.may_read(base / path):
        return None
    shown_path = prefix + path.removeprefix("./")
    if not rest:
        return shown_path
    return f"{shown_path}{'-' if _CONTEXT.match(rest) else ':'}{rest}".replace("\0", "")


def _scope(ctx: ToolContext, where: str, given: dict[str, Any]) -> tuple[Path, str | None, list[str]]:
    """Return the folder to search, the name of a single file to search in it, and the options that narrow the search."""
    path = resolve_path(ctx.workspace, where)
    if not os.path.exists(path):
        raise ToolError(f"{where} does not exist")
    if not os.path.isdir(path):
        return path.parent, path.name, []
    narrowing = [f"--type={given['type']}"] if given.get("type") else []
    glob: str = (given.get("glob") or "").removeprefix("./")
    if not glob:
        return path, None, [*narrowing, _NOT_GIT]
    fixed, _, rest = glob.rpartition("/")
    if fixed.endswith("**"):
        fixed = fixed[:-2].rstrip("/")
    elif fixed:
        rest = ""
    if narrowing or not rest or glob.startswith("!") or _META.search(fixed) or ":" in rest:
        return path, None, [*narrowing, f"--glob={glob}", _NOT_GIT]
    # As a file type instead of a glob, because to ripgrep a glob outranks .gitignore.
    base = resolve_path(ctx.workspace, str(path / fixed))
    if not os.path.isdir(base):
        raise ToolError(f"{fixed}, the folder in the glob {glob!r}, does not exist in {where}")
    return base, None, [f"--type-add=wanted:{rest}", "--type=wanted", _NOT_GIT]


def _grep_options(given: dict[str, Any]) -> list[str]:
    options = [f"--regexp={given['pattern']}"]
    match given.get("output_mode", "files_with_matches"):
        case "files_with_matches":
            options.append("--files-with-matches")
        case "count":
            options += ["--null", "--count"]
        case _:
            options += ["--null", f"--max-columns={MAX_LINE_CHARACTERS}", "--max-columns-preview"]
            options.append("--line-number" if given.get("-n", True) else "--no-line-number")
            options += [f"{flag}{int(given[flag])}" for flag in ("-A", "-B", "-C") if flag in given]
    if given.get("-i"):
        options.append("--ignore-case")
    if given.get("multiline"):
        options += ["--multiline", "--multiline-dotall"]
    return options


# -- LS ---------------------------------------------------------------------------------------------------


def list_folder(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The entries of one folder: folders first, then files with their sizes."""
    where = given.get("path") or "."
    ignored: list[str] = given.get("ignore") or []
    folders: list[str] = []
    others: list[str] = []
    try:
        with opened_folder(ctx.workspace, _folder(ctx, where)) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if not any(fnmatch(entry.name, pattern) for pattern in ignored):
                    line = _entry_line(folder, entry)
                    (folders if entry.is_dir(follow_symlinks=False) else others).append(line)
    except OSError as error:
        raise ToolError(f"cannot list {where}: {error.strerror}") from error
    lines = sorted(folders) + sorted(others)
    if not lines:
        return ToolResult(text=f"[{where} is empty]")
    if len(lines) > MAX_ENTRIES:
        lines[MAX_ENTRIES:] = [f"[the first {MAX_ENTRIES:,} of {len(lines):,} entries; use Glob to find the others]"]
    return ToolResult(text="\n".join(lines))


def _entry_line(folder: int, entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_symlink():
            return f"{entry.name} -> {os.readlink(entry.name, dir_fd=folder)}"
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return f"{entry.name}\t(unreadable)"
    if stat.S_ISDIR(status.st_mode):
        return f"{entry.name}/"
    return (
        f"{entry.name}\t{status.st_size:,} bytes" if stat.S_ISREG(status.st_mode) else f"{entry.name}\t(special file)"
    )


_FOLDER_PATH = string("Folder in the workspace. Default: its root.")

GLOB = Tool(
    name="Glob",
    description=(
        "Find files by name, the latest change first. A pattern without a slash (`*.py`) matches at any depth; "
        "one with a slash (`src/**/*.ts`) starts at `path`. Files that .gitignore names are left out."
    ),
    parameters={"pattern": string("Such as `**/*.py` or `src/*.{js,ts}`.", minLength=1), "path": _FOLDER_PATH},
    required=["pattern"],
    run=find_files,
)

GREP = Tool(
    name="Grep",
    description=(
        "Search files by regular expression (ripgrep's syntax: escape literal braces). `output_mode` is "
        "files_with_matches (the default), content (lines), or count (matching lines per file). -n, -A, -B and -C are "
        "for content. A pattern that spans lines needs `multiline`. Files that .gitignore names are left out."
    ),
    parameters={
        "pattern": string("Regular expression.", minLength=1),
        "path": string("File or folder in the workspace, or an output: handle. Default: the whole workspace."),
        "glob": string("Only files like this, e.g. `*.py`, `src/**/*.{js,ts}`."),
        "type": string("Only files of this ripgrep type, e.g. py, js, rust."),
        "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
        "-i": boolean("Ignore case."),
        "-n": boolean("Show line numbers. Default: true."),
        "-A": integer("Lines to show after each match.", minimum=0),
        "-B": integer("Lines to show before each match.", minimum=0),
        "-C": integer("Lines to show before and after each match.", minimum=0),
        "multiline": boolean("Let matches span lines, and `.` match line ends."),
        "head_limit": integer(f"Lines of output at most. Default: {DEFAULT_HEAD}; 0 for no limit.", minimum=0),
    },
    required=["pattern"],
    run=search_content,
)

LS = Tool(
    name="LS",
    description="List one folder: folders first, then files with their sizes, and where links point.",
    parameters={"path": _FOLDER_PATH, "ignore": strings("Name patterns to leave out.")},
    run=list_folder,
)
