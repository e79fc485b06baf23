"""Requests that have time: gathered into batches, found again whoever died, answered once, never sent twice.

Tests of swarm/capabilities/batching/batches.py, swarm/models/batches.py, tests/rehearsal/batches.py,
swarm/capabilities/batching/step.py, swarm/capabilities/batching/sender.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from swarm import Swarm
from swarm.capabilities.batching.batches import Batches
from swarm.capabilities.batching.sender import SETTLED_SECONDS
from swarm.core.errors import ConfigurationError
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

ECHO = """
name: echo
batches: {{seconds: {seconds}, unheard: {unheard}}}
faults: {faults}
rules:
  - {{name: echo, when: {{prompt: 'do (?P<what>n.*)$'}}, reply: {{text: 'did {{what}}'}}}}
  - {{name: data, when: {{prompt: 'as data'}}, reply: {{text: 'no data'}}}}
"""


@pytest.fixture(scope="module")
def fleet_of_batches() -> Iterator[Fleet]:
    with closing(Fleet(batch_seconds=0.3)) as fleet:
        fleet.start_worker(4)
        yield fleet


def rehearse(fleet: Fleet, *, seconds: float = 0.0, unheard: int = 0, overloads: int = 0) -> RehearsalServer:
    faults = [{"kind": "529", "times": overloads}] if overloads else []
    return fleet.rehearse(ECHO.format(seconds=seconds, unheard=unheard, faults=faults))


def batch(fleet: Fleet, server: RehearsalServer, count: int = 4, **order: Any) -> Any:
    lines = [f"n{number}" for number in range(count)]
    return fleet.swarm.map("do {it}", lines, batch=True, base_url=server.url, workspace=fleet.workspace, **order)


def test_patient_lines_go_together_at_half_the_price(fleet_of_batches: Fleet) -> None:
    fleet = fleet_of_batches
    server, other = rehearse(fleet), rehearse(fleet)
    order: Any = {"batch": True, "base_url": other.url, "workspace": fleet.workspace}
    unfit = fleet.swarm.map("{it}, as data", ["x"], result_schema={"type": "object"}, **order)
    made = batch(fleet, server)
    results = sorted(made.results(), key=lambda result: result.line)
    assert [result.text for result in results] == [f"did n{number}" for number in range(4)]
    assert server.stats()["batches"] == {"batches": 1, "requests": 4, "repeated": []}
    assert server.stats()["requests"] == 0
    paid = fleet.swarm.job(results[0].job_id).view()
    plain = fleet.swarm.submit("do n0", agent="answer", base_url=server.url, workspace=fleet.workspace).wait()
    # Without marks for the cache input is neither written nor read there.
    assert (paid.usage.cache_creation_input_tokens, paid.usage.cache_read_input_tokens) == (0, 0)
    [reply] = [entry for entry in fleet.swarm.journal(paid.root_id) if entry.kind == "assistant"]
    assert 0 < reply.cost_usd < plain.reckoned_usd / 2 and made.view().batch
    # An answer that would be sent back takes another request.
    [refused] = unfit.results()
    assert refused.state == "failed" and "does not fit its schema" in refused.reason
    assert not list(fleet.swarm.store.keyspace.client.scan_iter(fleet.swarm.store.keyspace.key("batch", "lot:*")))


def test_a_batch_of_which_nothing_was_heard_is_found_and_what_failed_in_it_goes_with_the_next(
    fleet_of_batches: Fleet,
) -> None:
    server = rehearse(fleet_of_batches, unheard=1, seconds=1.0, overloads=1)
    made = batch(fleet_of_batches, server)
    assert made.wait().completed == 4
    assert server.stats()["batches"] == {"batches": 2, "requests": 5, "repeated": []}


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"agent": "build"}, r"'build' has tools \(its `tools` must be an empty list\)"),
        ({"check": "true"}, "has a check or a grader"),
        ({"summaries": True}, "summaries"),
        ({"isolation": "worktree"}, "copies of files"),
    ],
)
def test_only_what_takes_one_request_goes_this_way(unmanned: Fleet, order: Any, said: str) -> None:
    with closing(Swarm(unmanned.settings)) as swarm, pytest.raises(ConfigurationError, match=said):
        swarm.map("do {it}", ["a"], batch=True, workspace=unmanned.workspace, **order)


@pytest.mark.long
def test_a_batch_outlives_its_workers_and_one_that_was_never_sent_is_sent(fleet_of_batches: Fleet) -> None:
    fleet, store = fleet_of_batches, fleet_of_batches.swarm.store
    server = rehearse(fleet, seconds=1.0)
    made = batch(fleet, server)
    wait_for("the batch is sent", lambda: server.stats()["batches"]["batches"])
    for worker in fleet.workers:
        worker.kill()
    # A worker takes requests to send them, and dies before it does.
    late = batch(fleet, server, 1)
    job = fleet.swarm.jobs(1)[0]
    claim = store.agents.claim(job.root_id, "worker", 60)
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "do n0"}]}
    assert Batches(store.keyspace).ask(claim, f"{job.root_id}-0", server.url, json.dumps(body)) == "asked"  # type: ignore[arg-type]
    taken = Batches(store.keyspace).make_lot(0.0)
    assert taken is not None and list(taken[1]) == [f"{job.root_id}-0"]
    store.keyspace.client.hincrbyfloat(store.keyspace.key("batch", "lot", taken[0].id), "made", -SETTLED_SECONDS)
    store.keyspace.client.zadd(store.keyspace.key("batch", "lots"), {taken[0].id: 0})
    store.agents.hand_over(claim, "its worker died")  # type: ignore[arg-type]
    fleet.start_worker(2)
    assert made.wait().completed == 4 and late.wait().completed == 1
    assert server.stats()["batches"] == {"batches": 2, "requests": 5, "repeated": []}
