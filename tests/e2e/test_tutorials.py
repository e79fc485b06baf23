"""The tutorials, followed to the letter: their files are written, their commands are run, in one shell each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_world import ROOT, World
from tests.flower import free_port
from tests.needs import need_program

pytestmark = pytest.mark.timeout(300)


def _script(page: str) -> str:
    """What a reader of the page types, as one script."""
    lines = []
    for kind, name, text in re.findall(
        r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL | re.M
    ):
        if name:
            lines.append(f"mkdir -p \"$(dirname {name})\" && cat > {name} <<'END OF FILE'\n{text}END OF FILE")
        elif kind == "python":
            lines.append(f"python - <<'END OF FILE'\n{text}END OF FILE")
        elif kind == "sh":
            lines.append(text)
    return "\n".join(lines)


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
def test_the_first_tutorial_reaches_its_end(world: World) -> None:
    said = _follow(_script("start.md"), world)
    found = "till.py:2:    return sum(prices)  # TODO: round to cents"
    assert "Hello! This answer is rehearsed" in said
    assert f"One TODO: {found}" in said
    assert "My colleague says: [todo-finder agent-" in said and "└─ ✔ todo-finder: find the TODOs" in said
    assert len(re.findall(r"^job-\w+ completed ", said, re.MULTILINE)) == 3, "what the Python of the page printed"


@pytest.mark.long
def test_the_tutorial_of_a_fleet_reaches_its_end(world: World) -> None:
    """As the page says, but for the ports. What its shell has started ends with it."""
    need_program("redis-server")
    need_program("curl")
    script = _script("fleet.md")
    for port in ("6399", "8765", "8400", "5555", "9464"):
        script = script.replace(port, str(free_port()))
    said = _follow(f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}", world)
    assert "DONE 13" in said and '"text":"DONE 3"' in said
    assert "swarm?token=" in said and "swarm_jobs_begun_total 3" in said
