"""Caches each file's result until the file changes, so that a catalogue is cheap to reload and always current.

The key is the reader and the path. A result is valid while time, size and inode of the file and of every
included file are unchanged. A lost entry costs one more read. Two threads may read the same file at once
and get the same result.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path

from swarm.definitions.markdown import read_shipped
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import ReadResult

_MAX_ENTRIES = 4_096

Stamp = tuple[int, int, int] | None
_entries: dict[tuple[str, str], tuple[dict[Path, Stamp], ReadResult]] = {}
_lock = threading.Lock()


def read_cached(path: Path, read: Callable[[Path], ReadResult], variant: str) -> ReadResult:
    """Return `read(path)`, from memory while no file has changed. `variant` names the reader and its options."""
    key = (variant, str(path))
    with _lock:
        known = _entries.get(key)
    if known is not None and all(stamp_of(file) == stamp for file, stamp in known[0].items()):
        return known[1]
    # Stamps are taken before the read: a change in between then makes the entry stale, and the next call reads again.
    stamps = {path: stamp_of(path)}
    result = read(path)
    if result.includes:
        # The included files are known only now, so the file is read again.
        stamps |= {file: stamp_of(file) for file in result.includes}
        result = read(path)
    with _lock:
        if len(_entries) >= _MAX_ENTRIES:
            _entries.clear()
        _entries[key] = (stamps, result)
    return result


@functools.cache
def shipped_definitions() -> dict[str, AgentDefinition]:
    """The shipped definitions, read once per process: they change only with the program."""
    return read_shipped()


def stamp_of(path: Path) -> Stamp:
    """Return a value that changes with the file: time, size and inode. None if the file does not exist."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
