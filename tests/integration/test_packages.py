"""What is built to be installed holds everything, what the links in swarm/ lead to as well.

Tests of pyproject.toml.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "swarm/mailbox/message.py",
    "swarm/tasks/app.py",
    "swarm/store/lua/common.lua",
    "swarm/capabilities/team/board.lua",
    "swarm/definitions/shipped/build.md",
    "swarm/rehearsal/scenarios/demo.yaml",
    "swarm/py.typed",
    "swarm/web/templates/swarm.html",
)


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_package_holds_every_module_script_and_definition_once(kind: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [package] = tmp_path.iterdir()
    if kind == "sdist":
        with tarfile.open(package) as archive:
            names = [name.split("/", 1)[1] for name in archive.getnames()]
        assert "docs/coming-from.md" in names
    else:
        with zipfile.ZipFile(package) as wheel:
            names = wheel.namelist()
    assert not [name for name in NEEDED if names.count(name) != 1]
    served = [path.relative_to(ROOT).as_posix() for path in (ROOT / "swarm/web/static").rglob("*") if path.is_file()]
    assert served and set(served) <= set(names), "what the page loads is packed"
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "swarm").rglob("*.py")}
    packed = {name for name in names if name.startswith("swarm/") and name.endswith(".py")}
    assert {name for name in sources if "__pycache__" not in name} <= packed
