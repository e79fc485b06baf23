"""An agent that produces more than a swarm may hold: it is bounded, the others go on, and it can be stopped and forgotten.

Tests of swarm/store/lua/append.lua, swarm/store/lua/outputs_common.lua, swarm/tools/outputs.py, swarm/objects/folder.py,
swarm/cli/usage.py, swarm/store/usage.py, swarm/store/lua/usage.lua.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.objects.folder import FolderObjects
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects
from swarm.store.usage import UsageStore
from tests.fleet import Fleet
from tests.waiting import wait_for

_FILLING = """
name: filling
rules:
  - when: {{prompt: '^fill', tools_allowed: false}}
    reply: {{text: no more}}
  - when: {{prompt: '^fill'}}
    reply:
      tools: [{calls}]
  - reply: {{text: done}}
"""


def _filling(characters: int, calls: int) -> str:
    """A scenario whose agent calls `calls` commands a turn, each with an output of this size."""
    call = f"{{name: Bash, input: {{command: 'head -c {characters} /dev/zero | tr \"\\0\" x'}}}}"
    return _FILLING.format(calls=", ".join([call] * calls))


@pytest.fixture(scope="module")
def small() -> Iterator[Fleet]:
    """A fleet whose agents may hold little, in a Redis of 64 MiB."""
    fleet = Fleet(agent_outputs_mib=20, job_outputs_mib=30, agent_journal_mib=1)
    try:
        fleet.swarm.store.keyspace.client.config_set("maxmemory", 64 << 20)
        fleet.start_worker(3)
        yield fleet
    finally:
        fleet.close()


def _held(folder: Path) -> int:
    held = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            held += path.stat().st_size if path.is_file() else 0
    return held


def test_an_agent_that_fills_the_store_is_bounded_and_the_others_go_on(small: Fleet) -> None:
    store, objects = small.swarm.store, small.settings.state_folder() / "objects"
    filler = small.submit("fill it", small.rehearse(_filling(4_000_000, 4)), max_turns=10_000)
    wait_for("more was produced than is kept", lambda: filler.view().tools > 12, 120)
    others = [small.submit("TREE depth=1 fanout=2 steps=1", small.rehearse()) for _ in range(3)]
    assert [job.wait(60).state for job in others] == ["completed"] * 3
    assert not store.fleet.full() and not filler.view().ended
    told = CliRunner().invoke(app, ["usage", "--json"], env=small.environment())
    usage = json.loads(told.stdout)
    assert usage["jobs"][0]["id"] == filler.id and usage["jobs"][0]["objects"] > 10_000_000, told.output
    assert {job.id for job in others} < {row["id"] for row in usage["jobs"]}
    assert sum(row["journals"] for row in usage["jobs"]) == usage["held"]["journals"]
    filler.cancel()
    wait_for("its processes are free", lambda: not store.leases.busy())
    # Besides what is kept, an output may have been about to be kept, and another about to be deleted.
    assert 0 < _held(objects) <= (20 << 20) + 8_100_000
    assert store.keyspace.client.info("memory")["used_memory"] < 32 << 20
    Forgetting(store.keyspace).forget(filler.id)
    held = JobObjects(store.keyspace, FolderObjects(objects))
    wait_for("its objects are gone", lambda: not held.delete_orphans() and _held(objects) == 0)


def test_an_agent_with_a_full_journal_gives_its_final_answer(small: Fleet) -> None:
    job = small.submit("fill it", small.rehearse(_filling(45_000, 4)), max_turns=10_000)
    view = job.wait(90)
    assert (view.state, view.text, view.stopped_at) == ("completed", "no more", "space")
    usage = UsageStore(small.swarm.store.keyspace)
    [agent] = usage.agents(job.id)
    assert 1 << 20 <= usage.job(job.id).held.journals == agent.held.journals < 2 << 20
