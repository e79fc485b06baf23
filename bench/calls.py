"""Sort the calls that a profiler has counted: by whose functions they are. Imports little, so that it can count imports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_OWN = f"{ROOT}/swarm/"
_BESIDE = re.compile(rf"{ROOT}/(?:bench|tests)/|<frozen importlib")
"""The benchmark itself, and finding modules."""
_PLACES = re.compile(
    rf"{_BESIDE.pattern}|<frozen (?:posixpath|genericpath)|.*/lib/python3\.\d+/(?:pathlib\.py|email/|importlib/)"
)
"""For imports also the walks over folders and packages: their length is that of the machine's paths and lists of packages."""
_SYSTEM = re.compile(
    r"<built-in method (?:posix|fcntl|_socket|io|_posixsubprocess)\.(?!fspath|_path_normpath)"
    r"|<method '(?!fileno|gettimeout|decode|register)\w+' of '(?:_socket|_io|select)\.(?!StringIO|BytesIO)"
)


def count_calls(entries: list[Any], *, importing: bool = False) -> dict[str, float]:
    """Count the calls of the project's functions, of libraries' and of built-in ones; of those, what asks the operating system."""
    found = {"own_calls": 0.0, "library_calls": 0.0, "builtin_calls": 0.0, "system_calls": 0.0}
    beside = _PLACES if importing else _BESIDE
    for entry in entries:
        if isinstance(entry.code, str) or beside.match(file := entry.code.co_filename):
            continue
        found["own_calls" if file.startswith(_OWN) else "library_calls"] += entry.callcount
        for called in entry.calls or ():
            if isinstance(called.code, str):
                found["builtin_calls"] += called.callcount
                found["system_calls"] += called.callcount if _SYSTEM.match(called.code) else 0
    return found
