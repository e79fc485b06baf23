"""Remembers results made from files, until one of their files or folders changes.

Readers name each path that they look at (`look_at`) or for (`look_for`), so a result is as current as one made again. An
in-place change that keeps the size is seen by its time. The clock of files ticks, so a result whose files have changed just now is not
kept. Thread-safe; two threads may make the same result at once.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Generic, TypeVar

Made = TypeVar("Made")
Stamp = tuple[int, ...] | None
_Seen = dict[tuple[str, bool], Stamp]

_TICK_NANOSECONDS = 20_000_000
"""Longer than a tick of any Linux kernel's clock of files."""
_seen: ContextVar[_Seen | None] = ContextVar("seen", default=None)


def look_at(path: str | os.PathLike[str]) -> None:
    """Note that a result depends on a file's content or a folder's entries. Call it before reading."""
    _note(os.fspath(path), True)


def look_for(path: str | os.PathLike[str]) -> None:
    """Note that a result depends on whether this is a file, a folder or nothing, and not on its content."""
    _note(os.fspath(path), False)


def look_everywhere() -> None:
    """Note that a result depends on more than can be named: it is made again each time."""
    if (seen := _seen.get()) is not None:
        seen["", True] = (time.time_ns(),)


class Memo(Generic[Made]):
    """Results by key; at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[Hashable, tuple[_Seen, Made]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return `make()`, from memory while nothing that it looked at has changed. A failure is not kept."""
        with self._lock:
            known = self._made.get(key)
        if known is None or any(_stamp(*place) != stamp for place, stamp in known[0].items()):
            return self._make(key, make)
        _add(known[0])
        return known[1]

    def _make(self, key: Hashable, make: Callable[[], Made]) -> Made:
        seen: _Seen = {}
        token = _seen.set(seen)
        try:
            made = make()
        finally:
            _seen.reset(token)
            _add(seen)
        made_at, seen = time.time_ns(), _shorten(seen)
        if max((stamp[0] for stamp in seen.values() if stamp), default=0) < made_at - _TICK_NANOSECONDS:
            with self._lock:
                if len(self._made) >= self._most:
                    self._made.clear()
                self._made[key] = seen, made
        return made


def _note(path: str, whole: bool) -> None:
    seen = _seen.get()
    if seen is not None and (path, whole) not in seen:
        seen[path, whole] = _stamp(path, whole)


def _add(seen: _Seen) -> None:
    """Let the result around this one depend on the same. The first look counts: a change since then makes it stale."""
    if (outer := _seen.get()) is not None:
        outer.update({place: stamp for place, stamp in seen.items() if place not in outer})


def _stamp(path: str, whole: bool) -> Stamp:
    """A value that changes with the file or folder; None if it does not exist."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        try:
            found = os.lstat(path)  # a link that leads nowhere
        except (OSError, ValueError):
            return None
    return (found.st_ctime_ns, found.st_size, found.st_ino) if whole else (stat.S_IFMT(found.st_mode),)


def _shorten(seen: _Seen) -> _Seen:
    """Put the missing folder in place of everything that would be below it."""
    kept: _Seen = {}
    for (path, whole), stamp in seen.items():
        while stamp is None and (above := os.path.dirname(path)) != path and _stamp(above, False) is None:
            path = above
        kept.setdefault((path, whole if stamp is not None else False), stamp)
    return kept
