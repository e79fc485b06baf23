"""The tutorial of a fleet, followed to the letter, in one shell.

Tests of docs/fleet.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks
from tests.e2e.cli_world import World
from tests.flower import free_port
from tests.needs import need_program

pytestmark = pytest.mark.timeout(300)


def _follow(script: str, world: World) -> str:
    """Run it to its end; what it printed."""
    ran = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=world.home,
        env=world.environment(
            SWARM_KEEP_SECONDS="60", PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
    return ran.stdout


@pytest.mark.long
def test_the_tutorial_of_a_fleet_reaches_its_end(world: World) -> None:
    """As the page says, but for the ports. What its shell has started ends with it."""
    need_program("redis-server")
    need_program("curl")
    script = "\n".join(block.text for block in blocks(ROOT / "docs/fleet.md"))
    for port in ("6399", "8765", "8400", "5555", "9464"):
        script = script.replace(port, str(free_port()))
    said = _follow(f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}", world)
    assert "DONE 13" in said and '"text":"DONE 3"' in said
    assert "swarm?token=" in said and "swarm_jobs_begun_total 3" in said
