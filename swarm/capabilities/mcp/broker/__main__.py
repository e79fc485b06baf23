"""Run the broker; exit at once if one runs already.

Usage: `python -m swarm.capabilities.mcp.broker FOLDER IDLE_SECONDS`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

from swarm.capabilities.mcp.places import LOCK, SOCKET, takes

_LOOK_SECONDS = 0.05


def main(arguments: list[str]) -> None:
    """Serve until no worker or server is left."""
    folder, idle_seconds = Path(arguments[0]), float(arguments[1])
    # The lock is held until this process ends. Only its holder loads the SDK.
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not takes(lock):
        if _is_served(folder / SOCKET):
            return
        time.sleep(_LOOK_SECONDS)
    import asyncio
    import logging

    from swarm.capabilities.mcp.broker.service import Broker

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(Broker(folder, idle_seconds).run())


def _is_served(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(place))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
