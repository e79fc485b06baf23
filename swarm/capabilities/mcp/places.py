"""Names in the folder of a host's MCP broker, and its locks."""

from __future__ import annotations

import fcntl

SOCKET, LOCK, STARTING, LOG, HOMES = "socket", "lock", "starting", "log", "homes"


def takes(lock: int) -> bool:
    """Take the lock of an open file until it is closed; False if another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
