"""Large files of a workspace: commits hold a pointer in the place of each, and its contents are parts (`swarm.workspace.parts`).

A pointer is a small binary file, so versions of a large file are merged, compared and named like those of any binary file. Its id names
the contents. Git does not look at large files: their entries in the index are marked so, and `swarm-large` in the git folder holds how
each file looked when it was read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from swarm.core.errors import GitFailed, ToolError
from swarm.workspace.changes import BIG_BYTES, Changes
from swarm.workspace.changes_applied import EXECUTABLE, Change
from swarm.workspace.files import open_file, replace_file
from swarm.workspace.git_command import call_git, write_object
from swarm.workspace.parts import CHUNK_BYTES, read_parts, store_parts

ALL_BYTES = 1 << 30
"""Most bytes of all large files of a workspace: the hub and every host that has it hold them."""
Held = tuple[str, bool]
"""A large file as commits hold it: its pointer, and whether it can be run."""
_FOLDER = "swarm-pointers"
_UNSURE = (-1, -1, -1)
"""The look of a file whose entry in the index may be an older one: no file looks so, and it is read again."""
_HEAD = b"\0swarm: the parts of a large file\n"


# -- pointers of a job's store -------------------------------------------------------------------------------


def find_store(git_dir: Path) -> Path:
    """Return the git folder whose objects a git folder uses."""
    return (git_dir / "objects").resolve().parent


def note_pointers(store: Path, found: Mapping[str, Sequence[str]]) -> None:
    """Note pointers and their parts, so that contents of a job's commits are found by them. Raises `GitFailed`."""
    try:
        (store / _FOLDER).mkdir(exist_ok=True)
        for pointer, parts in found.items():
            if not (file := store / _FOLDER / pointer).exists():
                new = file.with_suffix(".new")
                new.write_text("".join(f"{part}\n" for part in parts))
                new.rename(file)
    except OSError as error:
        raise GitFailed(f"{store / _FOLDER} cannot be written: {error}", "failed") from error


def find_pointers(store: Path, tree: str) -> dict[str, list[str]]:
    """Return the pointers in a tree or commit, and their parts. Raises `GitFailed`."""
    known = set[str]()
    with suppress(OSError):
        known = set(os.listdir(store / _FOLDER))
    if not known:
        return {}
    listed = call_git(store, ["ls-tree", "-r", "--object-only", tree])[1].decode().split()
    return {one: _parts_of(store, one) for one in sorted(known.intersection(listed))}


def read_content(store: Path, blob: str) -> Iterator[bytes]:
    """Yield the content of a file by its id in a commit, which may be a pointer. Raises `GitFailed`."""
    parts = _parts_of(store, blob)
    yield from read_parts(store, parts) if parts else [call_git(store, ["cat-file", "blob", blob])[1]]


def unwrap(store: Path, changes: Iterable[Change]) -> list[Change]:
    """Return changes with contents in the place of pointers, for a tree that others read. Raises `GitFailed`."""
    found = list[Change]()
    for change in changes:
        parts = _parts_of(store, change.new_id)
        content = b"".join(read_parts(store, parts)) if parts else b""
        found.append(replace(change, new_id=write_object(store, "blob", content)) if parts else change)
    return found


def _parts_of(store: Path, pointer: str) -> list[str]:
    with suppress(OSError):
        return (store / _FOLDER / pointer).read_text().split() if pointer else []
    return []


# -- files of a workspace ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LargeFile:
    """A file as it was read or made."""

    pointer: str
    seen: tuple[int, int, int]
    """Size, modification time (ns) and the bit to run it, at that moment."""

    @property
    def held(self) -> Held:
        """The file as commits hold it."""
        return self.pointer, bool(self.seen[2])


class LargeFiles:
    """The large files of the workspace `tree`, whose index is in `git_dir`. Everything raises `GitFailed`."""

    def __init__(self, git_dir: Path, tree: Path) -> None:
        self._git_dir, self._tree = git_dir, tree
        self._file = git_dir / "swarm-large"

    @property
    def _store(self) -> Path:
        return find_store(self._git_dir)

    def _known(self) -> dict[bytes, _LargeFile]:
        with suppress(OSError, ValueError, TypeError):
            held: dict[str, tuple[str, int, int, int]] = json.loads(self._file.read_text())
            return {os.fsencode(path): _LargeFile(one, (size, at, run)) for path, (one, size, at, run) in held.items()}
        return {}

    def _note(self, known: Mapping[bytes, _LargeFile]) -> None:
        if not known:
            self._file.unlink(missing_ok=True)
            return
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({os.fsdecode(path): (one.pointer, *one.seen) for path, one in known.items()}))
        new.replace(self._file)

    def list_changed(self) -> list[bytes]:
        """List known large files that do not look as they did."""
        return [path for path, one in self._known().items() if self._look(path) != one.seen]

    def _look(self, path: bytes) -> tuple[int, int, int] | None:
        with suppress(OSError):
            seen = os.lstat(os.path.join(os.fsencode(self._tree), path))
            return seen.st_size, seen.st_mtime_ns, seen.st_mode & 0o100
        return None

    def leave_out(self, found: Changes) -> None:
        """Leave out large files, the largest first, that do not fit beside the others."""
        known = self._known() if found.large else {}
        room = ALL_BYTES - sum(one.seen[0] for path, one in known.items() if path not in found.large)
        for path, (size, _) in sorted(found.large.items(), key=lambda one: one[1]):
            room -= size
            if room < 0:
                del found.large[path]
                found.left_out[path] = f"files over {BIG_BYTES >> 20} MiB have more than {ALL_BYTES >> 20} MiB together"

    def take(self, paths: Iterable[bytes], keep: Sequence[int]) -> None:
        """Put these files into the index, as pointers; `keep` are descriptors that commands of Git hold."""
        known = self._known()
        for path in paths:
            full, seen = self._tree / os.fsdecode(path), self._look(path) or (0, 0, 0)
            parts = store_parts(self._store, _read_chunks(self._tree, full))
            pointer = write_object(self._store, "blob", _HEAD + "".join(f"{part}\n" for part in parts).encode())
            note_pointers(self._store, {pointer: parts})
            # First the note: a file that the note lacks and the index has would never be looked at.
            known[path] = _LargeFile(pointer, _UNSURE)
            self._note(known)
            mode = EXECUTABLE if seen[2] else "100644"
            given = b"%s %s\t%s\0" % (mode.encode(), pointer.encode(), path)
            call_git(self._git_dir, ["update-index", "-z", "--index-info"], tree=self._tree, stdin=given, keep=keep)
            self._leave_alone([path], keep)
            known[path] = _LargeFile(pointer, seen)
            self._note(known)

    def _leave_alone(self, paths: Iterable[bytes], keep: Sequence[int]) -> None:
        given = b"".join(path + b"\0" for path in paths)
        command = ["update-index", "-z", "--skip-worktree", "--stdin"]
        call_git(self._git_dir, command, tree=self._tree, stdin=given, keep=keep)

    def drop(self, paths: Iterable[bytes]) -> None:
        """Forget files that are no longer large, or gone."""
        known = self._known()
        gone = set(paths)
        if gone & known.keys():
            self._note({path: one for path, one in known.items() if path not in gone})

    def drop_all(self) -> None:
        """Forget all files, with their index."""
        self._note({})

    def list_known(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return those of these paths that the index has as large files."""
        known = self._known()
        return [path for path in paths if path in known]

    def list_differing(self, pointers: Mapping[bytes, Held]) -> list[bytes]:
        """List large files of the workspace that differ from these pointers."""
        return [
            path
            for path, one in self._known().items()
            if pointers.get(path) != one.held or self._look(path) != one.seen
        ]

    def find(self, commit: str) -> dict[bytes, Held]:
        """Return the large files of a commit."""
        if not (known := find_pointers(self._store, commit)):
            return {}
        listed = call_git(self._git_dir, ["ls-tree", "-r", "-z", commit])[1].split(b"\0")[:-1]
        entries = (line.partition(b"\t") for line in listed)
        found = {path: about.decode().split(" ") for about, _, path in entries}
        return {path: (one, mode == EXECUTABLE) for path, (mode, _, one) in found.items() if one in known}

    def write(self, pointers: Mapping[bytes, Held], keep: Sequence[int]) -> None:
        """Write the contents of pointers that were just checked out into their places."""
        known = self._known()
        for path, (pointer, runs) in pointers.items():
            one = known.get(path)
            if one is not None and one.held == (pointer, runs) and one.seen == self._look(path):
                continue
            full = self._tree / os.fsdecode(path)
            try:
                found = os.lstat(full).st_mtime_ns
                replace_file(self._tree, full, read_content(self._store, pointer), seen_mtime_ns=found, durable=False)
            except (OSError, ToolError) as error:
                raise GitFailed(f"{full} cannot be written: {error}", "failed") from error
            known[path] = _LargeFile(pointer, self._look(path) or (0, 0, 0))
            self._note(known)
        if pointers:
            self._leave_alone(pointers, keep)


def _read_chunks(tree: Path, path: Path) -> Iterator[bytes]:
    try:
        opened, _ = open_file(tree, path)
        with open(opened, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except (OSError, ToolError) as error:
        raise GitFailed(f"{path} cannot be read: {error}", "failed") from error
