"""Run the broker: `python -m swarm.mcp.broker FOLDER IDLE_SECONDS`; it ends at once where one runs already."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from swarm.mcp.broker.serving import Broker


def main(arguments: list[str]) -> None:
    """Serve until nobody needs it."""
    folder, idle_seconds = arguments
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(Broker(Path(folder), float(idle_seconds)).run())


if __name__ == "__main__":
    main(sys.argv[1:])
