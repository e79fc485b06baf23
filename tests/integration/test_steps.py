"""A swarm works without any one optional capability, and without all of them: without its folder and its row.

Tests of swarm/core/capabilities.py, swarm/runtime/additions.py, swarm/runtime/steps.py.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swarm.agent.spec import AgentSpec
from swarm.cli.app import SECTIONS
from swarm.core.capabilities import ENGINE, TABLE, Capability, StepRow, capabilities, load
from swarm.core.settings import Settings
from swarm.definitions.model import AgentDefinition
from swarm.runtime.additions import OrderPart, WorkerPart
from swarm.runtime.steps import Step, step_rows
from tests.fleet import Fleet

CODE = Path(__file__).parents[2] / "swarm"
OPTIONAL = [name for name in TABLE if name not in ENGINE]
LATER = {
    ("swarm.client.jobs", "team"),
    ("swarm.client.jobs", "repositories"),
    ("swarm.client.jobs", "evaluations"),
    ("swarm.capabilities.hooks.step", "team"),
}
"""Modules whose functions import a capability: they are called only where it is."""
_IMPORT_ALL = """
import importlib, pkgutil, sys, swarm
for found in pkgutil.walk_packages(swarm.__path__, "swarm."):
    if not found.name.endswith("__main__") and found.name not in sys.argv[1:]:
        importlib.import_module(found.name)
"""


def copy_without(folder: Path, names: Collection[str]) -> None:
    """The package as if nobody had written these capabilities."""
    shutil.copytree(CODE, folder / "swarm", ignore=shutil.ignore_patterns("node_modules"), copy_function=os.link)
    table = folder / "swarm" / "core" / "capabilities.py"
    text = table.read_text()
    for name in names:
        shutil.rmtree(folder / "swarm" / "capabilities" / name)
        row = f'    "{name}",\n'
        assert text.count(row) == 1
        text = text.replace(row, "")
    table.unlink()  # a link to the original
    table.write_text(text)


def run_in(folder: Path, *arguments: str) -> str:
    """Run Python with the copy; returns what it printed."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def live(fleet: Fleet, folder: Path) -> None:
    """A parent starts a child and ends with what that said, on a worker of this code."""
    fleet.start_worker(1, PYTHONPATH=str(folder))
    job = fleet.submit("TREE depth=1 fanout=1 steps=1", fleet.rehearse("tree"))
    assert job.wait(60).state == "completed"


def own_modules(one: Capability) -> set[str]:
    """The modules of other layers that belong to a capability."""
    commands = {home.partition(":")[0] for entries in one.commands.values() for home in entries.values()}
    named = {one.acts, one.reads, *(home.partition(":")[0] for home in (one.panels, one.routes))} - {""}
    checks = {one.check.partition(":")[0]} - {""}
    return {f"swarm.cli.{module}" for module in commands | checks} | named


OWN = {name: own_modules(capabilities()[name]) for name in OPTIONAL}
OWN["mcp"].add("swarm.cli.mcp_logins")  # a part of its command
OWN["triggers"].add("swarm.client.triggers")  # orders, which only a client makes
OWN["evaluations"] |= {  # parts of its commands
    "swarm.client.evaluations",
    *(f"swarm.replay.{name}" for name in ("evaluation", "measuring", "run_options", "sets")),
}


def test_agents_live_and_commands_run_where_no_optional_capability_exists(fleet: Fleet, tmp_path: Path) -> None:
    copy_without(tmp_path, OPTIONAL)
    run_in(tmp_path, "-c", _IMPORT_ALL, *(module for modules in OWN.values() for module in modules))
    live(fleet, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONAL)
def test_agents_live_without_one_of_them(fleet: Fleet, tmp_path: Path, name: str) -> None:
    copy_without(tmp_path, [name])
    run_in(tmp_path, "-c", _IMPORT_ALL, *OWN[name])
    live(fleet, tmp_path)


@pytest.mark.parametrize("name", OPTIONAL)
def test_the_help_lists_all_commands_but_those_of_a_capability_that_is_gone(tmp_path: Path, name: str) -> None:
    copy_without(tmp_path, [name])
    shown = run_in(tmp_path, "-m", "swarm", "--help")
    gone = {command for entries in capabilities()[name].commands.values() for command in entries}
    listed = {command for section in SECTIONS.values() for command in section if f"  {command} " in shown}
    assert listed == {command for section in SECTIONS.values() for command in section} - gone


@pytest.mark.parametrize("name", OPTIONAL)
def test_only_what_a_capability_names_needs_its_folder(name: str) -> None:
    found = [(module, at_once) for module, at_once, imported in _imports() if imported == name]
    assert {module for module, at_once in found if at_once or (module, name) not in LATER} <= OWN[name]


@cache
def _imports() -> list[tuple[str, bool, str]]:
    return list(_find_imports())


def _find_imports() -> Iterator[tuple[str, bool, str]]:
    """Module outside of a capability's folder, whether it imports that when it is imported itself, and the capability."""
    for path in CODE.rglob("*.py"):
        module = ".".join(path.relative_to(CODE.parent).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        if "swarm.capabilities." not in text:
            continue
        tree = ast.parse(text)
        later = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("swarm.capabilities."):
                name = str(node.module).split(".")[2]
                if not module.startswith(f"swarm.capabilities.{name}"):
                    yield module, node not in later, name


def test_what_acts_for_every_agent_names_no_capability() -> None:
    assert not [path for path in (CODE / "runtime").glob("*.py") if "swarm.capabilities" in path.read_text()]


@pytest.mark.parametrize("row", step_rows(), ids=lambda row: row.name)
def test_every_row_leads_to_a_step(row: StepRow) -> None:
    made = load(row.home)
    assert (isinstance(made, type) and issubclass(made, Step)) or made.__name__.endswith("_of")


@pytest.mark.parametrize("row", step_rows(), ids=lambda row: row.name)
def test_every_fact_of_a_row_is_known_of_an_agent(row: StepRow) -> None:
    definition = AgentDefinition(name="worker", description="Works.", prompt="Work.")
    given: dict[str, Any] = {
        "agent_id": "a",
        "job_id": "j",
        "prompt": "",
        "description": "",
        "model": "m",
        "workspace": "/tmp",
    }
    found = SimpleNamespace(spec=AgentSpec(definition=definition, **given), settings=Settings())
    for path in row.wanted:
        attrgetter(path)(found)


@pytest.mark.parametrize("one", capabilities().values(), ids=capabilities())
def test_every_place_that_a_capability_names_exists(one: Capability) -> None:
    assert not one.order or issubclass(load(one.order), OrderPart)
    assert not one.worker or issubclass(load(one.worker), WorkerPart)
    for module in own_modules(one):
        import_module(module)
