"""Import memory from folders where other agents keep theirs, and export it to a folder that a person names.

Each content of a file is imported once. A page that was changed since the last import is left as it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from swarm.capabilities.memory.mounts import ROOT, TEAM, make_mounts, read_path, tell_mounts
from swarm.capabilities.memory.pages import IMPORT, Author, Memories
from swarm.core.errors import ConfigurationError, MemoryRefused, ToolError
from swarm.core.secrets import strip_secrets
from swarm.definitions.memory_stores import MemoryStore, Places
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import (
    Problem,
    Unusable,
    is_folder,
    list_files,
    project_folders,
    read_text,
    resolve,
    show_path,
)
from swarm.runtime.additions import OrderPart, OrderPlace
from swarm.store.store import Store

_PROJECT, _LOCAL, _USER = Path(".claude/agent-memory"), Path(".claude/agent-memory-local"), Path(".claude/agent-memory")


@dataclass(frozen=True)
class MemoryFolder:
    """The pages of a folder that belong to one memory store."""

    memory_store: MemoryStore
    pages: dict[str, str]
    problems: list[Problem] = field(default_factory=list)


def find_memory_folders(
    definitions: Iterable[AgentDefinition], places: Places, workspace: Path, home: Path
) -> list[MemoryFolder]:
    """Return the memory folders of types whose scope other systems have, too."""
    above = project_folders(workspace)
    found = []
    for definition in definitions:
        match definition.memory:
            case "user":
                folders = [home / _USER / definition.name]
            case "project":
                folders = [folder / _PROJECT / definition.name for folder in above]
            case "local":
                folders = [folder / _LOCAL / definition.name for folder in above]
            case _:
                continue
        folder = next(filter(is_folder, folders), None)
        if folder is not None:
            found.append(read_folder(folder, places.memory_store(definition.memory, definition.name)))
    return found


class MemoryOfOrder(OrderPart):
    """The memory of an order's agents."""

    def __init__(self, place: OrderPlace) -> None:
        super().__init__(place)
        types = place.catalogue.definitions.values()
        self._folders = find_memory_folders(types, place.memory, place.folder, place.home)

    def place_first(self, store: Store) -> list[str]:
        """Import files into the agents' memory."""
        memories = Memories(store.keyspace)
        return [str(problem) for folder in self._folders for problem in take_in(memories, folder)[1]]

    def tell(self, store: Store, definition: AgentDefinition, now: float) -> str:
        """The memory of this type."""
        if definition.memory is None:
            return ""
        return tell_mounts(store, make_mounts(self.place.memory, definition.memory, definition.name), now=now)


def read_folder(folder: Path, memory_store: MemoryStore) -> MemoryFolder:
    """Read a folder's pages: its Markdown and text files, without secrets. Links out of it are refused."""
    read = MemoryFolder(memory_store, {})
    for path in list_files(folder, (".md", ".txt"), read.problems):
        try:
            if not resolve(path).is_relative_to(resolve(folder)):
                raise Unusable("it is a link that leads out of its folder", "Put the file there itself.")
            page = read_path(f"{ROOT}/{path.relative_to(folder).as_posix()}")
            if page.split("/")[0] == TEAM and memory_store.scope != "team":
                raise Unusable(f"{TEAM!r} is the folder that a project's agents share", "Rename the folder.")
            read.pages[page] = strip_secrets(read_text(path)).text
        except Unusable as error:
            read.problems.append(error.as_problem(path))
        except ToolError as error:
            read.problems.append(Problem(path=show_path(path), message=str(error).rstrip("."), remedy="Rename it."))
    return read


def take_in(memories: Memories, folder: MemoryFolder, *, overwrite: bool = False) -> tuple[list[str], list[Problem]]:
    """Import what is new in a folder. Returns the imported pages, and why others were left as they are."""
    before = memories.imported(folder.memory_store)
    taken, problems = [], list(folder.problems)
    for page, text in folder.pages.items():
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        if before.get(page) == digest and not overwrite:
            continue
        given = {} if overwrite else {"sha": digest}
        try:
            memories.change(folder.memory_store, "write", page, Author(IMPORT), text=text, **given)
            taken.append(page)
        except MemoryRefused as error:
            if error.code != "same":
                remedy = "`swarm memory import --overwrite` takes the file's text." if error.code == "changed" else ""
                problems.append(Problem(path=f"{folder.memory_store.id} {page}", message=str(error), remedy=remedy))
    return taken, problems


def write_folder(memories: Memories, memory_store: MemoryStore, folder: Path) -> list[Path]:
    """Write every page of a memory store as a file.

    Raises `ConfigurationError` for a page that cannot be written, or that would lie outside the folder.
    """
    written = []
    for page in memories.pages(memory_store):
        found = memories.read(memory_store, page.name)
        if found is None:
            continue
        path = folder / page.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not resolve(path).is_relative_to(resolve(folder)):
                raise ConfigurationError(f"{path} is a link, or below one, that leads out of {folder}; remove it")
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(found[1], encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
        written.append(path)
    return written
