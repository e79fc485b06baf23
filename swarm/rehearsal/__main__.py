"""Serve a scenario from the shell: `python -m swarm.rehearsal SCENARIO [--port P] [--latency S]`."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from swarm.errors import SwarmError
from swarm.rehearsal.scenario import load_scenario
from swarm.rehearsal.server import RehearsalServer


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted; the first line printed ends with the URL."""
    parser = argparse.ArgumentParser(prog="python -m swarm.rehearsal", description=__doc__)
    parser.add_argument("scenario", help="a shipped scenario (tree, hello ...) or a YAML file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=None, metavar="SECONDS", help="instead of the scenario's own")
    chosen = parser.parse_args(arguments)
    try:
        server = RehearsalServer(load_scenario(chosen.scenario), chosen.host, chosen.port, chosen.latency)
    except (SwarmError, OSError, OverflowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        print(f"rehearsing {server.scenario.name} at {server.url}", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return 0


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
