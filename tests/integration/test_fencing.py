"""Who lost an agent writes nothing in its name any more: neither into its journal nor into anything that the job shares.

Tests of swarm/runtime/journal.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from swarm.agent.entries import Prompt
from swarm.core.errors import AgentCancelled, NotOwner
from swarm.store.store import Store
from swarm.store.values import OutputBounds
from swarm.tools.outputs import Outputs
from tests.fleet import Fleet
from tests.job_world import JobWorld

CAUSE = "toolu_1"


@pytest.fixture
def world(unmanned: Fleet, store: Store) -> JobWorld:
    """A job with two teammates, a task and a page; of `ada` there was a claim before the present one."""
    world = JobWorld(store, unmanned)
    world.start("ada")
    world.start("ben", parent="ada", teammate=False)
    world.add("a task")
    world.claims["old"] = world.claims["ada"]
    world.store.agents.hand_over(world.claims["ada"], "its worker seemed dead")
    world.run("ada")
    return world


def _cause(world: JobWorld, claim: str, call: str = CAUSE) -> str:
    return f"{world.ids['ada']}:{world.claims[claim].generation}/{call}"


STEPS: dict[str, Callable[[JobWorld, str], object]] = {
    "board": lambda world, claim: world.board.claim(world.ids["ada"], _cause(world, claim), 1),
    "page": lambda world, claim: world.pad.append(world.ids["ada"], _cause(world, claim), "page", "x"),
    "stop": lambda world, claim: world.store.agents.cancel(
        world.ids["ben"], "no need", by=(world.ids["ada"], world.claims[claim].generation)
    ),
    "output": lambda world, claim: Outputs(world.store, world.claims[claim], OutputBounds(99, 99)).keep("key", claim),
    "journal": lambda world, claim: world.store.journals.append(
        world.claims[claim], world.lengths["ada"] + 1, [Prompt(text=claim)]
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_claim_that_is_over_changes_nothing_and_the_present_one_does(world: JobWorld, step: str) -> None:
    before = _keys(world)
    with pytest.raises(NotOwner):
        STEPS[step](world, "old")
    assert _keys(world) == before
    STEPS[step](world, "ada")
    assert _keys(world) != before


def _keys(world: JobWorld) -> dict[str, object]:
    """Everything that is stored, readable."""
    client, found = world.store.keyspace.client, {}
    for key in client.scan_iter(f"{world.store.keyspace.prefix}:*"):
        kind = client.type(key)
        read = {
            "hash": client.hgetall,
            "string": client.get,
            "set": lambda key: sorted(client.smembers(key)),
            "list": lambda key: client.lrange(key, 0, -1),
            "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            "stream": lambda key: client.xrange(key),
        }
        found[key] = read[kind](key)
    return found


def test_a_call_that_is_delivered_again_to_another_worker_returns_what_it_did_first(world: JobWorld) -> None:
    first = world.pad.append(world.ids["ada"], _cause(world, "ada"), "page", "once")
    world.store.agents.hand_over(world.claims["ada"], "its worker seemed dead")
    world.run("ada")
    assert world.pad.append(world.ids["ada"], _cause(world, "ada"), "page", "once") == first
    assert world.pad.read("page")[1] == "once"


def test_one_that_waits_for_a_worker_writes_nothing_either(world: JobWorld) -> None:
    world.store.agents.hand_over(world.claims["ada"], "its worker seemed dead")
    for step in STEPS.values():
        with pytest.raises(NotOwner):
            step(world, "ada")


def test_one_that_was_cancelled_keeps_no_output(world: JobWorld) -> None:
    world.store.agents.cancel(world.root, "stop")
    with pytest.raises(AgentCancelled):
        STEPS["output"](world, "ada")
    with pytest.raises(AgentCancelled):
        STEPS["stop"](world, "ada")
