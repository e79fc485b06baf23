"""Workers of several releases on one Redis: who leaves what to whom, what people are told, and one form for one format.

Tests of swarm/client/upgrade.py, swarm/cli/upgrade.py, swarm/core/release.py, swarm/core/formats.py.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm import Job
from swarm.core.release import FORMAT, VERSION
from swarm.store import library
from swarm.store.library import Library
from tests.fleet import Fleet, Worker
from tests.job_world import open_store
from tests.rehearsal import RehearsalServer
from tests.releases import (
    MOOD,
    NEXT_FORMAT,
    NEXT_VERSION,
    ROOT,
    environment,
    last_release,
    next_release,
    run_in,
    swarm_in,
)
from tests.waiting import wait_for

FINE = "name: fine\nrules: [{reply: {text: fine}}]\n"
TURNS = """
name: turns that wait for files
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Bash, input: {command: "echo ran >> log; until [ -e first ]; do sleep 0.1; done"}}]}}
  - {when: {turn: 1}, reply: {tools: [{name: Bash, input: {command: "echo ran >> log; until [ -e second ]; do sleep 0.1; done"}}]}}
  - {reply: {text: fine}}
"""
UNREAD = {
    "/Entry/discriminator/mapping/switched": "an older worker cannot read such a journal, and leaves its agent to others",
    "/Entry/oneOf": "as above",
    "AgentDefinition.fallbacks": "an older worker cannot read an agent with a chain, and leaves it to others",
    "AgentSpec.fallbacks": "as above",
    "AgentDefinition.harness": "its agents need an offer that older workers do not make",
    "Advanced.allowances": "an older worker does not bound them: docs/workflows.md",
    "AgentSpec.repository": "its agents need an offer that older workers do not make",
    "Assistant.beside": "only agents of harnesses have it, which older workers do not take",
    "Assistant.facts": "only a replay reads them",
    "Condition.further": "an older worker waits for the first answer alone, and for the others later",
    "Condition.model": "an older worker waits until the time, whatever a person chose meanwhile",
    "Redefined.offers": "an older worker offers the first list of tools",
    "Started.offers": "an older worker offers the first list of tools",
    "ToolFinished.beside": "only agents of harnesses have it, which older workers do not take",
}
"""New fields of one format, and why workers of the last release may ignore them."""
SHAPES = ("Entry", "AgentSpec", "Instructions", "Package", "Skills", "Catalogue", "JobServers", "Rules", "Payload")
_SHAPES = """
import json
from pydantic import TypeAdapter
from swarm.agent.entries import Entry
from swarm.agent.spec import AgentSpec
from swarm.capabilities.context.instructions import Instructions
from swarm.capabilities.skills.model import Package, Skills
from swarm.core.release import FORMAT
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.mcp.servers import JobServers
from swarm.permissions.rules import Rules
from swarm.tasks.publish import Payload

def bare(schema):
    if isinstance(schema, dict):
        return {name: bare(part) for name, part in schema.items() if name not in ("description", "title", "default")}
    return [bare(part) for part in schema] if isinstance(schema, list) else schema

kinds = (Entry, AgentSpec, Instructions, Package, Skills, Catalogue, JobServers, Rules, Payload)
print(json.dumps([FORMAT, [bare(TypeAdapter(kind).json_schema()) for kind in kinds]], sort_keys=True))
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up release after today's code, with a format of its own."""
    return next_release(tmp_path_factory.mktemp("releases") / "next")


def _submit(tree: Path, fleet: Fleet, server: RehearsalServer) -> Job:
    """Have a client of this release submit a job."""
    given = {"agent": "general-purpose", "workspace": str(fleet.workspace), "base_url": server.url}
    program = f"from swarm import Swarm; print(Swarm().submit('hello', **{given}).id)"
    return fleet.swarm.job(run_in(tree, program, fleet.environment()).strip())


def _moods(tree: Path, fleet: Fleet, job: Job) -> list[str]:
    """How this release reads the agent's specification and journal."""
    program = f"""
from swarm import Swarm
root = Swarm().job({job.id!r}).view().root_id
print(Swarm().store.agents.spec(root).{MOOD}, *(entry.{MOOD} for entry in Swarm().journal(root)))
"""
    return run_in(tree, program, fleet.environment()).split()


def test_an_agent_of_a_newer_format_is_left_alone_and_the_worker_to_upgrade_is_named(fleet: Fleet, newer: Path) -> None:
    worker, server = fleet.start_worker(1), fleet.rehearse(FINE)
    job = _submit(newer, fleet, server)
    lack = f"it needs format {NEXT_FORMAT}, and w1@test reads up to {FORMAT}: upgrade it"
    assert wait_for("it is told", job.find_unmet) == lack and fleet.swarm.find_lacks() == {job.id: lack}
    mine = fleet.submit("hello", server).wait(60)
    assert mine.text == "fine", "its own jobs go on"
    [root] = job.agents()
    assert (root.state, root.generation, root.deaths) == ("queued", 0, 0)
    assert [line for line in worker.text().splitlines() if "ERROR" in line and "worker.unfit" not in line] == []
    assert "message.refused" not in worker.text()
    told = swarm_in(newer, fleet.environment(), "upgrade", "--check", "--json")
    found = json.loads(told.stdout)
    [row] = found["workers"]
    assert (told.returncode, found["done"], found["order"]) == (1, False, [row["worker"]])
    assert (row["version"], row["format"], row["leaves_agents"], row["leaves_jobs"]) == (VERSION, FORMAT, 1, 1)
    assert found["unread"] == {job.id: NEXT_FORMAT}
    fleet.start_worker(1, **environment(newer))
    assert job.wait(60).text == "fine", "a worker that reads it takes it"
    assert swarm_in(newer, fleet.environment(), "upgrade", "--check").returncode == 1
    here = swarm_in(ROOT, fleet.environment(), "upgrade", "--check")
    assert here.returncode == 1 and f"has the newer release {NEXT_VERSION}: upgrade this machine" in here.stdout
    assert worker.stop() == 0
    wait_for(
        "only the new one is there", lambda: swarm_in(newer, fleet.environment(), "upgrade", "--check").returncode == 0
    )
    assert "agent.running" in worker.text() and job.id not in worker.text()


def _leave(worker: Worker, then: Path) -> None:
    """Have a worker leave; the call that it waits for ends by this file."""
    worker.process.send_signal(signal.SIGTERM)
    wait_for("it leaves", lambda: "shutdown" in worker.text().lower())
    then.touch()
    assert worker.process.wait(30) == 0


@pytest.mark.long
def test_an_older_agent_is_upgraded_by_its_next_worker_and_stays_with_newer_ones(fleet: Fleet, newer: Path) -> None:
    first, log = fleet.start_worker(1), fleet.workspace / "log"
    job = fleet.submit("hello", fleet.rehearse(TURNS), mode="bypassPermissions")
    wait_for("the old one works", log.exists)
    second = fleet.start_worker(1, **environment(newer))
    _leave(first, fleet.workspace / "first")
    wait_for("the new one works", lambda: log.read_text() == "ran\nran\n")
    fleet.start_worker(1)
    _leave(second, fleet.workspace / "second")
    lack = wait_for("the old one leaves it", job.find_unmet)
    assert lack == f"it needs format {NEXT_FORMAT}, and w3@test reads up to {FORMAT}: upgrade it"
    fleet.start_worker(1, **environment(newer))
    assert job.wait(60).text == "fine" and log.read_text() == "ran\nran\n"
    spec, *moods = _moods(newer, fleet, job)
    assert spec == "upgraded" and moods == sorted(moods, reverse=True) and set(moods) == {"upgraded", "new"}


def test_an_older_sweep_keeps_no_newer_one_from_its_turn(unmanned: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    store, newer = open_store(unmanned), Library()
    with monkeypatch.context() as patched:
        patched.setattr(library, "FORMAT", NEXT_FORMAT)
        newer.load(store.keyspace.client, store.now())
    for turn in (1, 0):
        assert store.leases.begin_sweep("old", 60, 60).is_mine == bool(turn)
        assert store.keyspace.run("begin_sweep", "new", 60, 120, 8, 0.85, library=newer)[1] == turn


def test_what_one_format_writes_has_one_form(tmp_path: Path) -> None:
    """The records of today's code are those of the last release, or their format is a newer one."""
    was, shapes = json.loads(run_in(last_release(tmp_path / "last"), _SHAPES, {}))
    assert was <= FORMAT
    if was == FORMAT:
        added = set(_find_added(shapes, json.loads(run_in(ROOT, _SHAPES, {}))[1], ""))
        assert added == UNREAD.keys(), (
            "raise FORMAT in swarm/core/release.py, or say why the last release may ignore it"
        )


def _find_added(was: Any, now: Any, place: str) -> Iterator[str]:
    """Yield the fields of today's records that the last release ignores. Every other difference is yielded, too."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in was.keys() | now.keys():
            if name not in was and place.endswith(("/properties", "/$defs")):
                if place.endswith("/properties"):
                    yield f"{place.removesuffix('/properties').rpartition('/')[2]}.{name}"
            elif name not in was or name not in now:
                yield f"{place}/{name}"
            else:
                yield from _find_added(was[name], now[name], f"{place}/{name}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now) == len(SHAPES):
        for name, before, after in zip(SHAPES, was, now, strict=True):
            yield from _find_added(before, after, f"/{name}")
    elif was != now:
        yield place
