"""An agent lives without the step of any one capability, and without all of them.

Tests of swarm/runtime/steps.py.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

import pytest

from swarm.runtime.steps import ROWS, Step, StepRow
from tests.fleet import Fleet

CODE = Path(__file__).parents[2] / "swarm"
OPTIONAL = [row for row in ROWS if row.home.startswith("swarm.capabilities.") and row.name != "compaction"]
"""Without cuts a conversation would one day not fit its model."""
_IMPORT_ALL = """
import importlib, pkgutil, swarm
for found in pkgutil.walk_packages(swarm.__path__, "swarm."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert swarm.__file__.startswith({folder!r}), swarm.__file__
"""


def copy_without(folder: Path, names: Collection[str]) -> None:
    """The package as if nobody had written these capabilities' steps: without their modules and their rows."""
    shutil.copytree(CODE, folder / "swarm", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for row in OPTIONAL:
        if row.name in names:
            path = folder / Path(*row.home.partition(":")[0].split(".")).with_suffix(".py")
            others = [one for one in path.parent.iterdir() if one.name not in (path.name, "__init__.py")]
            # One that is nothing but its step goes with its folder.
            path.unlink() if others else shutil.rmtree(path.parent)
    table = folder / "swarm" / "runtime" / "steps.py"
    lines = table.read_text().splitlines(keepends=True)
    for node in reversed(list(ast.walk(ast.parse("".join(lines))))):
        is_row = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StepRow"
        if is_row and ast.literal_eval(node.args[0]) in names:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    table.write_text("".join(lines))


def import_all(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL.format(folder=str(folder))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def live(fleet: Fleet, folder: Path) -> None:
    """A parent starts a child and ends with what that said, on a worker of this code."""
    fleet.start_worker(1, PYTHONPATH=str(folder))
    job = fleet.submit("TREE depth=1 fanout=1 steps=1", fleet.rehearse("tree"))
    assert job.wait(60).state == "completed"


def test_an_agent_lives_to_its_end_where_no_capability_has_a_step(fleet: Fleet, tmp_path: Path) -> None:
    copy_without(tmp_path, {row.name for row in OPTIONAL})
    import_all(tmp_path)
    live(fleet, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [row.name for row in OPTIONAL])
def test_an_agent_lives_to_its_end_without_one_of_them(fleet: Fleet, tmp_path: Path, name: str) -> None:
    copy_without(tmp_path, {name})
    import_all(tmp_path)
    live(fleet, tmp_path)


def test_what_acts_for_every_agent_names_no_capability() -> None:
    named = {
        path.name: line
        for path in (CODE / "runtime").glob("*.py")
        for line in path.read_text().splitlines()
        if "swarm.capabilities" in line
    }
    assert set(named) == {"steps.py"}
    assert "import_module" in (CODE / "runtime" / "steps.py").read_text()


@pytest.mark.parametrize("row", OPTIONAL, ids=lambda row: row.name)
def test_every_row_leads_to_a_step(row: StepRow) -> None:
    module, _, name = row.home.partition(":")
    made = getattr(import_module(module), name)
    assert (isinstance(made, type) and issubclass(made, Step)) or made.__name__.endswith("_of")
