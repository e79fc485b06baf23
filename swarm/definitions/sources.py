"""Reads definition files without trusting them, and defines the readers' results.

Only regular files of at most 1 MiB in UTF-8 are read. Symbolic links to files and folders are followed, because
people share their agents that way; a loop of links ends. A fault in one file is a `Problem` of that file, never
an exception for the others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.errors import DefinitionError
from swarm.core.memo import look_at, look_for
from swarm.definitions.model import AgentDefinition

MAX_FILE_BYTES = 1024 * 1024
MAX_FOLDER_ENTRIES = 5_000
MAX_FOLDER_DEPTH = 8
_MAX_ENUMERATED = 12


class Problem(BaseModel):
    """The reason why a file, or a definition in it, was not used."""

    model_config = ConfigDict(frozen=True)

    path: str
    line: int | None = None
    message: str
    remedy: str
    guards: bool = False
    """The lost entry would restrict agents."""

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}. {self.remedy}"


class ReadResult(BaseModel):
    """The result of reading one file or folder."""

    model_config = ConfigDict(frozen=True)

    definitions: list[AgentDefinition] = []
    problems: list[Problem] = []
    disabled: dict[str, str] = {}
    """Names that the file switches off, with the file's path; weaker sources of these names are hidden."""
    max_depth: int | None = Field(default=None, exclude=True)
    """Maximum nesting depth of agents."""
    merged: list[str] = Field(default=[], exclude=True)
    """Names of configuration entries that were merged into the file's definition."""
    includes: list[Path] = Field(default=[], exclude=True)
    """Files of roles that a configuration names."""


class Unusable(DefinitionError):
    """A file, or a definition in it, cannot be used; readers turn this into a `Problem`."""

    def __init__(self, message: str, remedy: str, line: int | None = None) -> None:
        self.message, self.remedy, self.line = message, remedy, line
        super().__init__(f"{message}. {remedy}")

    def as_problem(self, path: Path, *, guards: bool = False) -> Problem:
        """Return a `Problem` for the file; `guards` if the lost part would restrict agents."""
        return Problem(path=show_path(path), line=self.line, message=self.message, remedy=self.remedy, guards=guards)


def show_path(path: Path) -> str:
    """Return the path as text that can always be stored, whatever bytes its name has."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def show_place(path: Path, workspace: Path | None, home: Path | None) -> str:
    """Return a path for people: relative to the workspace, below the home (`~/`), or absolute."""
    for base, mark in ((workspace, ""), (home, "~/")):
        if base is not None and path.is_relative_to(base):
            return mark + show_path(path.relative_to(base))
    return show_path(path)


def config_folder(home: Path) -> Path:
    """Return the folder of a person's configurations: `XDG_CONFIG_HOME` for the real home, else `.config` in the given one."""
    configured = os.environ.get("XDG_CONFIG_HOME")
    return Path(configured) if configured and home == _real_home() else home / ".config"


def _real_home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None  # a user without a home


def as_text(value: object) -> str:
    """Return a plain value from a file as text. Raises `Unusable` for a number with thousands of digits."""
    try:
        return str(value)
    except ValueError as error:
        raise Unusable("a number in it is too long", "Correct it.") from error


def show(value: object) -> str:
    """Return a value from a file, quoted and short, for a message."""
    if not isinstance(value, (str, bool, int, float)):
        return f"a {type(value).__name__}"
    text = repr(value) if isinstance(value, str) else as_text(value)
    return text if len(text) <= 60 else text[:57] + "…'"


def enumerate_briefly(items: list[str]) -> str:
    """Join the first items for a message, and count the rest."""
    hidden = len(items) - _MAX_ENUMERATED
    return ", ".join(items[:_MAX_ENUMERATED]) + (f" and {hidden} more" if hidden > 0 else "")


def read_text(path: Path) -> str:
    """Read a small regular file, without byte-order mark and with plain line ends. Raises `Unusable`."""
    look_at(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unusable("not a regular file", "Replace it by a file.")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror or error}", "Check that it exists and may be read.") from error
    except ValueError as error:
        raise Unusable("its path is not valid", "Rename it.") from error
    if len(data) > MAX_FILE_BYTES:
        raise Unusable("larger than 1 MiB", "Shorten it; an agent's prompt should be a few kilobytes.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unusable("it is UTF-16", "Save it as UTF-8.", 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable("it is not UTF-8", "Save it as UTF-8.", data.count(b"\n", 0, error.start) + 1) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_folder(path: Path) -> bool:
    """Report whether the path is a folder or a link to one. False if it cannot be inspected."""
    look_for(path)
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Report whether the path exists, dangling links included. False if it cannot be inspected."""
    look_for(path)
    try:
        path.lstat()
    except OSError:
        return False
    return True


def resolve(path: Path) -> Path:
    """Resolve links in a path; a loop of links stays unresolved."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def project_folders(workspace: Path | None) -> list[Path]:
    """Return the workspace and its parents up to the repository's root; without a repository, the workspace alone.

    Folders above the repository, such as `/tmp`, are never read: anyone could have written there.
    """
    if workspace is None:
        return []
    start = resolve(workspace)
    folders = [start, *start.parents]
    root = next((index for index, folder in enumerate(folders) if exists(folder / ".git")), 0)
    return folders[: root + 1]


def locate(reference: str, folder: Path, root: Path | None) -> Path:
    """Return the path of a file that another file names, relative to `folder`. Raises `Unusable`.

    With a `root` the file must lie inside it, links resolved. Otherwise a cloned repository could put a
    person's other files into a prompt.
    """
    remedy = "Name a file inside the project."
    try:
        reference.encode()  # a lone surrogate is no file name
        path = (folder / Path(reference).expanduser()).resolve()
        inside = root is None or path.is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise Unusable(f"the file name {show(reference)} is not valid", remedy) from error
    if not inside:
        raise Unusable(f"it names {show(reference)}, which lies outside the project", remedy)
    return path


def list_files(folder: Path, suffixes: tuple[str, ...], problems: list[Problem]) -> list[Path]:
    """List the files below `folder` with one of these endings, sorted, without hidden files and folders.

    A folder with too many entries, such as a link to a whole disk, becomes a problem and gives no files.
    """
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    entries = 0
    pending = [(folder, 0)]
    while pending:
        current, depth = pending.pop()
        look_at(current)
        try:
            status = current.stat()
            paths = list(current.iterdir())
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue  # a loop of links, or the same folder by two names
        seen.add((status.st_dev, status.st_ino))
        entries += len(paths)
        if entries > MAX_FOLDER_ENTRIES:
            fault = Unusable(
                f"more than {MAX_FOLDER_ENTRIES} entries below it", "Keep only definitions in this folder."
            )
            problems.append(fault.as_problem(folder))
            return []
        for path in paths:
            if path.name.startswith(".") or path.name == "node_modules":
                continue
            if path.name.lower().endswith(suffixes) and not is_folder(path):
                found.append(path)
            elif depth < MAX_FOLDER_DEPTH and is_folder(path):
                pending.append((path, depth + 1))
    return sorted(found)
