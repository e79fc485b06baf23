"""Dependency folders of an agent's copy: installed packages and build results that Git ignores, and that follow the agent all the same.

They are no part of the agent's work: nothing merges, shows or applies them, and an agent that lost them can make them again. A kept
folder is a table of its entries, and the contents of its files in order: both are parts (`swarm.workspace.parts`), so hosts and the hub
have equal contents once. Files keep their times, which builds compare.

Keeping takes at most a tenth of the agent's time. So a folder is read again only if it looks different and enough time has passed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from swarm.core.errors import GitFailed, ToolError
from swarm.workspace.files import opened_folder
from swarm.workspace.git_command import OBJECT_ID, call_git
from swarm.workspace.large import find_store
from swarm.workspace.parts import CHUNK_BYTES, read_parts, store_parts

MOST_BYTES = 512 << 20
"""A larger folder is not kept."""
ALL_BYTES = 1 << 30
"""An agent whose folders have had so many different contents keeps no more: the hub has each of them."""
_DEPTH = 4
_LOOKED_AT = 2_000
"""Folders within a folder whose times tell whether it has changed."""
_CUT = 256
"""One of so many files begins a chunk, by its name: so a new file does not move all chunks after it."""
_FILE, _RUN, _LINK, _FOLDER = "f", "x", "l", "d"
_OF_ITS_PLACE = "pyvenv.cfg"
"""A folder with this file names its own path in its programs, so it works in no other."""

Parts = dict[str, list[str]]
"""Path of a folder → the parts of its table and contents."""


@dataclass(frozen=True)
class _Member:
    path: str
    kind: str
    time: int
    """Modification time (ns)."""
    what: int | str
    """A file's size, or a link's target."""


@dataclass(frozen=True)
class _State:
    """An agent's folders as this host has kept or brought them."""

    kept: Parts = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    """Path of a folder → how it looked when it was kept or brought."""
    told: str = ""
    bytes: int = 0
    """Size of all different contents so far."""
    next: float = 0.0
    """Time before which nothing is kept."""


class Dependencies:
    """The dependency folders of the copy `tree`, whose git folder is `git_dir`; `names` are names of such folders."""

    def __init__(self, git_dir: Path, tree: Path, names: Collection[str]) -> None:
        self._git_dir, self._tree, self._names = git_dir, tree, names
        self._file = git_dir / "swarm-dependencies"

    def _read(self) -> _State:
        with suppress(OSError, ValueError, TypeError):
            return _State(**json.loads(self._file.read_text()))
        return _State()

    def _write(self, state: _State) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(vars(state)))
        new.replace(self._file)

    # -- keeping -------------------------------------------------------------------------------------------

    @property
    def told(self) -> str:
        """The part that names the kept folders and their parts, for a snapshot's message; empty if nothing is kept."""
        return self._read().told

    def keep(self, send: Callable[[Iterable[str]], None]) -> bool:
        """Keep the folders as they are now, unless it is too early, and return whether they changed; `send` sends parts to the hub.

        Raises `GitFailed`.
        """
        began, state = time.time(), self._read()
        before = state.told
        if began < state.next or state.bytes > ALL_BYTES or not self._names:
            return False
        try:
            found = self._keep(state)
            if found.kept != state.kept:
                [told] = store_parts(find_store(self._git_dir), [json.dumps(found.kept).encode()])
                send([told, *chain.from_iterable(found.kept.values())])
                found = replace(found, told=told if found.kept else "")
            state = found
            return found.told != before
        except (OSError, ToolError) as error:
            raise GitFailed(f"dependency folders of {self._tree} cannot be kept: {error}", "failed") from error
        finally:
            self._write(replace(state, next=time.time() + 9 * (time.time() - began)))

    def _keep(self, state: _State) -> _State:
        marks = {folder: _mark(self._tree / folder) for folder in self._find()}
        known, kept, size = set(chain.from_iterable(state.kept.values())), Parts(), state.bytes
        for folder, mark in marks.items():
            if mark == state.marks.get(folder):
                kept |= {folder: state.kept[folder]} if folder in state.kept else {}
            elif (entries := self._list(folder)) is not None:
                sizes = list[int]()
                kept[folder] = store_parts(find_store(self._git_dir), _measure(self._pack(folder, entries), sizes))
                size += sum(one for part, one in zip(kept[folder], sizes, strict=True) if part not in known)
        return replace(state, kept=kept, marks=marks, bytes=size)

    def _find(self) -> list[str]:
        """Return the folders of these names that have no file which a snapshot holds."""
        found = list(_walk_to(self._tree, self._names, "", _DEPTH))
        if not found:
            return []
        words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *found]
        held = os.fsdecode(call_git(self._git_dir, words, tree=self._tree)[1]).split("\0")[:-1]
        return [folder for folder in found if not any(path.startswith(f"{folder}/") for path in held)]

    def _list(self, folder: str) -> list[_Member] | None:
        """List what a folder holds, by path; None if it is too large."""
        entries, left = list[_Member](), MOST_BYTES
        with _opened(self._tree, folder) as top:
            for inner, folders, files, opened in os.fwalk(".", dir_fd=top, follow_symlinks=False):
                folders.sort()
                for name in sorted([*folders, *files]):
                    seen = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    path = os.path.normpath(os.path.join(inner, name))
                    if stat.S_ISDIR(seen.st_mode):
                        entries.append(_Member(path, _FOLDER, seen.st_mtime_ns, 0))
                    elif stat.S_ISLNK(seen.st_mode):
                        entries.append(_Member(path, _LINK, seen.st_mtime_ns, os.readlink(name, dir_fd=opened)))
                    elif stat.S_ISREG(seen.st_mode):
                        kind = _RUN if seen.st_mode & 0o100 else _FILE
                        entries.append(_Member(path, kind, seen.st_mtime_ns, seen.st_size))
                        left -= seen.st_size
                if left < 0:
                    return None
        return entries

    def _pack(self, folder: str, entries: Sequence[_Member]) -> Iterator[bytes]:
        """Yield the table with its size before it, then the contents, each cut into chunks."""
        table = json.dumps({"at": str(self._tree / folder), "entries": [vars(one) for one in entries]}).encode()
        table = zlib.compress(table, 1)
        head = len(table).to_bytes(8, "big") + table
        yield from (head[start : start + CHUNK_BYTES] for start in range(0, len(head), CHUNK_BYTES))
        chunk = b""
        with _opened(self._tree, folder) as top:
            for entry in entries:
                if entry.kind not in (_FILE, _RUN):
                    continue
                if chunk and zlib.crc32(os.fsencode(entry.path)) % _CUT == 0:
                    yield chunk
                    chunk = b""
                for piece in _read_file(top, entry):
                    chunk += piece
                    while len(chunk) >= CHUNK_BYTES:
                        yield chunk[:CHUNK_BYTES]
                        chunk = chunk[CHUNK_BYTES:]
        if chunk:
            yield chunk

    # -- bringing ------------------------------------------------------------------------------------------

    def list_wanted(self, told: str) -> Parts:
        """Return the folders that a snapshot's part names, and that this copy does not have as they are there. Raises `GitFailed`."""
        named = _read_list(b"".join(read_parts(find_store(self._git_dir), [told])))
        kept = self._read().kept
        return {
            folder: parts
            for folder, parts in named.items()
            if kept.get(folder) != parts and folder.rpartition("/")[2] in self._names
        }

    def bring(self, wanted: Parts, told: str) -> list[str]:
        """Put kept folders into the copy, in the place of others; returns the ones that work there. Raises `GitFailed`.

        `told` is the part that names them.
        """
        done = list[str]()
        for folder, parts in wanted.items():
            new = self._git_dir / f"dependencies-{secrets.token_hex(8)}"
            try:
                if _unpack(read_parts(find_store(self._git_dir), parts), new, self._tree / folder):
                    self._put(new, folder)
                    done.append(folder)
                    state, mark = self._read(), _mark(self._tree / folder)
                    kept, marks = {**state.kept, folder: parts}, {**state.marks, folder: mark}
                    self._write(replace(state, kept=kept, marks=marks, told=told))
            except (OSError, ToolError, ValueError, TypeError, KeyError, zlib.error) as error:
                raise GitFailed(f"{self._tree / folder} cannot be brought: {error}", "failed") from error
            finally:
                shutil.rmtree(new, ignore_errors=True)
        return done

    def _put(self, new: Path, folder: str) -> None:
        place, old = self._tree / folder, new.with_name(f"{new.name}-old")
        with opened_folder(self._tree, place.parent, create=True) as parent:
            with suppress(FileNotFoundError):
                os.rename(place.name, old, src_dir_fd=parent)
            os.rename(new, place.name, dst_dir_fd=parent)
        shutil.rmtree(old, ignore_errors=True)


def _read_list(text: bytes) -> Parts:
    """Return folders and parts that another host has named. Raises `GitFailed` if they cannot be that."""
    with suppress(AttributeError, TypeError, ValueError):
        named = json.loads(text)
        is_below = all(not PurePosixPath(folder).is_absolute() and ".." not in folder.split("/") for folder in named)
        if is_below and all(re.fullmatch(OBJECT_ID, part) for part in chain.from_iterable(named.values())):
            return dict(named)
    raise GitFailed("the list of dependency folders that a snapshot names cannot be read", "failed")


def _opened(tree: Path, folder: str) -> Any:
    return opened_folder(tree, tree / folder)


def _walk_to(tree: Path, names: Collection[str], inner: str, depth: int) -> Iterator[str]:
    """Yield paths of folders of these names, and look into no other one that begins with a dot."""
    with suppress(OSError), os.scandir(tree / inner) as entries:
        folders = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
        for name in folders:
            if name in names:
                yield os.path.join(inner, name)
            elif depth > 1 and not name.startswith("."):
                yield from _walk_to(tree, names, os.path.join(inner, name), depth - 1)


def _mark(folder: Path) -> str:
    """Return a text that differs once files were added to or removed from a folder, or to the upper ones in it."""
    todo, times = [os.fspath(folder)], list[int]()
    for place in todo:
        with suppress(OSError):
            times.append(os.lstat(place).st_mtime_ns)
            if len(todo) < _LOOKED_AT:
                with os.scandir(place) as entries:
                    todo += sorted(one.path for one in entries if one.is_dir(follow_symlinks=False))
    return f"{len(todo)}-{zlib.crc32(repr(times).encode()):x}-{max(times, default=0)}"


def _measure(chunks: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    """Yield chunks, and note the size of each."""
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk


def _read_file(top: int, entry: _Member) -> Iterator[bytes]:
    """Yield a file's content, through no link. Raises `OSError` if it changes meanwhile."""
    left = int(entry.what)
    with open(_open_below(top, entry.path), "rb") as file:
        while left > 0 and (piece := file.read(min(left, CHUNK_BYTES))):
            left -= len(piece)
            yield piece
        if left or os.fstat(file.fileno()).st_mtime_ns != entry.time:
            raise OSError(f"{entry.path} is still written")


def _open_below(top: int, path: str) -> int:
    *folders, name = path.split("/")
    current = os.dup(top)
    try:
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = deeper
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=current)
    finally:
        os.close(current)


class _Stream:
    """Bytes that come in chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def read(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes. Raises `ValueError` if there are fewer."""
        while size > 0:
            self._rest = self._rest or next(self._chunks, b"")
            if not self._rest:
                raise ValueError("its contents end too early")
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece


def _unpack(chunks: Iterator[bytes], new: Path, place: Path) -> bool:
    """Make a folder from its table and contents; False if it works in another place only."""
    stream = _Stream(chunks)
    size = int.from_bytes(b"".join(stream.read(8)), "big")
    table = json.loads(zlib.decompress(b"".join(stream.read(size))))
    entries = [_Member(**one) for one in table["entries"]]
    if table["at"] != str(place) and any(one.path == _OF_ITS_PLACE for one in entries):
        return False
    new.mkdir(mode=0o755)
    made = {"."}
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        # A link in the place of a folder would lead out.
        if (folder or ".") not in made or name in ("", ".", "..") or entry.path.startswith("/"):
            raise ValueError(f"it has a strange path, {entry.path!r}")
        _make(f"{new}/{entry.path}", entry, stream)
        if entry.kind == _FOLDER:
            made.add(entry.path)
    for entry in reversed(entries):
        os.utime(f"{new}/{entry.path}", ns=(entry.time, entry.time), follow_symlinks=False)
    return True


def _make(full: str, entry: _Member, stream: _Stream) -> None:
    match entry.kind:
        case "d":
            os.mkdir(full)
        case "l":
            os.symlink(str(entry.what), full)
        case kind:
            mode = 0o777 if kind == _RUN else 0o666
            with open(os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
                file.writelines(stream.read(int(entry.what)))
