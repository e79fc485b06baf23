"""What lies in the folder of a host's broker of MCP servers, and how its locks are taken."""

from __future__ import annotations

import fcntl

SOCKET, LOCK, STARTING, LOG, HOMES = "socket", "lock", "starting", "log", "homes"


def takes(lock: int) -> bool:
    """Take the lock of an open file for as long as it is open; False if somebody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
