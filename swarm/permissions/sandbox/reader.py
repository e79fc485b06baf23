"""Starts the runtime's own programs that read a workspace, such as ripgrep, so that they can read nothing else.

These programs walk by path, and an agent's shell can replace a folder by a link meanwhile. The kernel then refuses
access outside. Without Landlock they run unrestricted, and only their first folder is certain.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from swarm.permissions.sandbox import enter
from swarm.permissions.sandbox.host import SYSTEM_FOLDERS

_LOADER = "/etc/ld.so.cache"
_Started = TypeVar("_Started")


@lru_cache(maxsize=1)
def landlock_abi() -> int:
    """Return the version of the kernel's Landlock; 0 if it is missing or switched off."""
    if sys.platform != "linux":
        return 0
    try:
        return max(0, int(ctypes.CDLL(None).syscall(444, None, 0, 1)))
    except (OSError, AttributeError):
        return 0


def start_reading(start: Callable[[], _Started], readable: Iterable[Path]) -> _Started:
    """Call `start` so that its processes can read only the system's folders and `readable`, and write nothing."""
    abi = landlock_abi()
    if not abi:
        return start()
    words = [f"landlock={abi}", "device=/dev/null", f"read={_LOADER}"]
    words += [f"read={path}" for path in (*SYSTEM_FOLDERS, *readable)]
    done: list[_Started] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            enter.restrict(words)
            done.append(start())
        except BaseException as error:
            failed.append(error)

    # Landlock restricts the calling thread and its children, so this thread stays unrestricted.
    thread = threading.Thread(target=run, name="start-reading")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
