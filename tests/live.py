"""Examine the real server with the key of the environment: `python -m tests.live [MODEL]`. Without a key it is skipped."""

from __future__ import annotations

import sys

from swarm.cli.app import app
from swarm.core.settings import load_settings
from swarm.models.connection import explain_missing

if __name__ == "__main__":
    if missing := explain_missing(load_settings()):
        sys.exit(f"skipped: {missing}")
    app(["doctor", "--live", *(["--model", sys.argv[1]] if sys.argv[1:] else [])])
