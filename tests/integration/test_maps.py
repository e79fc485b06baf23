"""Maps: a job for each line, begun and noted by the steps that end others, whoever dies.

Tests of swarm/capabilities/mapping/maps.py, swarm/cli/maps.py, swarm/client/aio.py, swarm/client/maps.py, swarm/client/swarm.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from swarm import Swarm
from swarm.agent.entries import Finished
from swarm.capabilities.mapping.maps import Attempt, MapLine, Maps
from swarm.client import aio
from swarm.client.maps import prepare_map
from swarm.client.order import MapOrder
from swarm.core.errors import ConfigurationError, UnknownMap
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import count_commands

ECHO = """
name: echo
rules:
  - name: fails
    when: {prompt: '^do bad'}
    reply: {text: ''}
  - name: echo
    when: {prompt: '^do (?P<what>.*)$'}
    reply: {text: 'did {what}'}
"""


@pytest.fixture
def swarm(unmanned: Fleet, store: Store) -> Iterator[Swarm]:
    """A swarm without workers, whose agents the test ends itself."""
    with closing(Swarm(unmanned.settings)) as swarm:
        swarm.store = store
        yield swarm


def end_one(swarm: Swarm, *, state: str = "completed", text: str = "done") -> str:
    """A worker takes the next agent and ends it; its job's id."""
    store = swarm.store
    agent_id = store.leases.called()[0]
    claim = store.agents.claim(agent_id, "worker", 60)
    entry = Finished(at=1.0, generation=claim.generation, state=state, text=text)  # type: ignore[union-attr,arg-type]
    store.agents.finish(claim, 1, entry)  # type: ignore[arg-type]
    return claim.spec.job_id  # type: ignore[union-attr]


def make(swarm: Swarm, unmanned: Fleet, lines: Any = ("a", "b", "c"), **bounds: Any) -> Any:
    return swarm.map("do {it}", lines, workspace=unmanned.workspace, **bounds)


def test_each_end_begins_the_next_line_and_the_last_one_ends_the_map(swarm: Swarm, unmanned: Fleet) -> None:
    made = make(swarm, unmanned, max_running=2)
    assert (made.view().running, made.view().waiting) == (2, 1)
    end_one(swarm, text="one")
    assert (made.view().running, made.view().waiting, made.view().completed) == (2, 0, 1)
    end_one(swarm)
    end_one(swarm)
    view = made.view()
    assert (view.state, view.completed, view.running, view.ended) == ("completed", 3, 0, True)
    results = list(made.results())
    assert [one.text for one in results] == ["one", "done", "done"]
    assert sorted((one.line, one.input) for one in results) == [(1, "a"), (2, "b"), (3, "c")]
    assert list(made.results(after=results[1].position)) == results[2:]
    assert 0 < swarm.store.keyspace.client.ttl(swarm.store.keyspace.key("map", made.id, "results")) <= 7 * 86_400


def test_a_line_has_its_prompt_and_its_job_tells_of_it(swarm: Swarm, unmanned: Fleet) -> None:
    made = swarm.map("say {name} {{name}} {n}", [{"name": 'ü "x"', "n": 2}], workspace=unmanned.workspace, agent="plan")
    job_id = end_one(swarm)
    spec = swarm.store.agents.spec(swarm.job(job_id).view().root_id)
    assert (spec.prompt, spec.definition.name, spec.job_id) == ('say ü "x" {name} 2', "plan", job_id)
    [result] = made.results()
    assert (result.input, result.job_id) == ({"name": 'ü "x"', "n": 2}, job_id)
    assert swarm.store.jobs.catalogue(job_id)


def test_failed_lines_are_tried_again_as_often_as_was_said_and_by_hand(swarm: Swarm, unmanned: Fleet) -> None:
    made = make(swarm, unmanned, ["a"], retries=1)
    first, second = end_one(swarm, state="failed"), end_one(swarm, state="failed")
    assert first != second and made.view().ended and made.view().retried == 1
    [failure] = made.failures()
    assert (failure.line, failure.state, failure.attempts) == (1, "failed", 2)
    assert made.retry() == 1 and made.view().state == "running" and made.failures() == []
    end_one(swarm)
    assert [one.state for one in made.results()] == ["failed", "completed"]
    assert (made.view().completed, made.view().failed) == (1, 0)


def test_a_cancelled_map_begins_nothing_and_its_jobs_end(swarm: Swarm, unmanned: Fleet) -> None:
    made = make(swarm, unmanned, max_running=1)
    end_one(swarm)
    made.cancel()
    view = made.view()
    assert (view.state, view.ended, view.completed, view.waiting, view.failed) == ("cancelled", True, 1, 0, 1)
    assert swarm.store.leases.called() == [] and [one.state for one in made.results()] == ["completed", "cancelled"]
    with pytest.raises(ConfigurationError, match="was cancelled"):
        made.retry()


def test_what_no_map_can_be_is_refused(swarm: Swarm, unmanned: Fleet) -> None:
    for prompt, lines, said in (
        ("do it", ["a"], "the same for every line"),
        ("do {it}", [], "no lines"),
        ("do {x} {y}", ["a"], "only, but the prompt has {x}, {y}"),
        ("do {x}", [{"y": 1}], "line 1 has no field 'x'; it has y"),
        ("{x}", ["a", " "], "line 2: the prompt is empty"),
        ("do {x}", [3], "line 1 is neither text"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            swarm.map(prompt, lines, workspace=unmanned.workspace)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no option idempotency_key"):
        make(swarm, unmanned, idempotency_key="x")
    with pytest.raises(UnknownMap, match="swarm maps list"):
        swarm.find_map("map-none")
    assert swarm.maps() == []


def test_a_map_keeps_what_its_jobs_refer_to_and_stops_when_its_money_is_spent(swarm: Swarm, unmanned: Fleet) -> None:
    made = make(swarm, unmanned, max_running=1, budget_usd=1.0)
    store = swarm.store
    store.keyspace.client.hset(store.keyspace.key("map", made.id), "cost", 2_000_000_000)
    end_one(swarm)
    assert (made.view().state, made.view().waiting, made.view().ended) == ("stopped", 2, True)
    made.go_on(budget_usd=3.0, max_running=2)
    assert (made.view().state, made.view().running, made.view().ended) == ("running", 2, False)
    assert [view.id for view in swarm.maps()] == [made.id]
    # As the sweep does after all of its jobs have expired.
    for job_id in store.jobs.ids():
        store.keyspace.client.delete(store.keyspace.key("job", job_id))
        store.keyspace.client.zadd(store.keyspace.key("expiring"), {job_id: 0})
    store.keyspace.run("unsettled")
    assert store.jobs.ids() == []
    assert store.keyspace.client.zcard(store.keyspace.key("documents")) > 0


def test_a_map_of_many_begins_them_in_bounded_steps(swarm: Swarm, unmanned: Fleet) -> None:
    made = make(swarm, unmanned, [str(number) for number in range(120)], max_running=100)
    assert made.view().running == 100
    assert Maps(swarm.store.keyspace).cancel(made.id) and made.view().state == "cancelled"


def gather(swarm: Swarm, unmanned: Fleet, map_id: str, count: int) -> Maps:
    """A map whose maker dies before it is started."""
    maps = Maps(swarm.store.keyspace)
    order = MapOrder("do {it}", ["a", "b"], workspace=unmanned.workspace, max_running=1)
    record = prepare_map(order, swarm.settings).record(swarm.settings) | {"definitions": "d", "carried": ""}
    lines = [MapLine(n, str(n), "{}", [Attempt(f"job-{map_id}-{n}", f"agent-{map_id}-{n}")]) for n in range(count)]
    maps.make(map_id, record, lines, {"d": "text"})
    return maps


def test_a_map_starts_in_one_short_step_whatever_the_number_of_its_lines(swarm: Swarm, unmanned: Fleet) -> None:
    spent = []
    for count in (10, 3_000):
        maps = gather(swarm, unmanned, f"map-{count}", count)
        spent.append(count_commands(swarm.store, lambda: list(maps.start(f"map-{count}"))))  # noqa: B023
        assert (maps.view(f"map-{count}").running, maps.view(f"map-{count}").waiting) == (1, count - 1)
    assert spent[0] == spent[1]


def test_a_map_that_was_never_started_is_swept_with_its_documents(swarm: Swarm, unmanned: Fleet) -> None:
    keyspace = gather(swarm, unmanned, "map-1", 3) and swarm.store.keyspace
    for part in ((), ("lines",)):
        assert 0 < keyspace.client.ttl(keyspace.key("map", "map-1", *part)) <= 86_400
    # What a day later is.
    keyspace.client.delete(keyspace.key("map", "map-1"), keyspace.key("map", "map-1", "lines"))
    keyspace.client.zadd(keyspace.key("expiring"), {"map-1": 0})
    swarm.store.jobs.unsettled()
    assert keyspace.client.keys(keyspace.key("*")) == []


def test_lines_are_done_by_workers_and_their_results_read_as_they_come(at_work: Fleet) -> None:
    server = at_work.rehearse(ECHO)
    made = at_work.swarm.map(
        "do {it}", [f"n{n}" for n in range(12)], base_url=server.url, workspace=at_work.workspace, max_running=3
    )
    results = list(made.results())
    assert sorted((one.line, one.text) for one in results) == [(n + 1, f"did n{n}") for n in range(12)]
    assert made.wait().completed == 12 and made.view().cost_usd == 0.0 and made.view().tokens > 0


def test_results_come_to_programs_of_asyncio_as_well(at_work: Fleet) -> None:
    server = at_work.rehearse(ECHO)

    async def run() -> list[tuple[int, str]]:
        async with aio.Swarm(at_work.settings) as swarm:
            made = await swarm.map("do {it}", ["x", "y"], base_url=server.url, workspace=at_work.workspace)
            found = await swarm.find_map(made.id)
            results = [(one.line, one.text) async for one in found.results()]
            assert (await made.wait()).completed == 2 and (await swarm.maps(1))[0].id == made.id
            return results

    assert sorted(asyncio.run(run())) == [(1, "did x"), (2, "did y")]
