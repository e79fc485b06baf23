"""A giant job is cancelled, or its root ends, while another job works: its slowest append, and the longest step in Redis."""

from __future__ import annotations

import multiprocessing
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Event
from typing import Any

from bench.lives import claim_root, submit
from bench.measure import Report, quantile
from swarm.agent.entries import (
    Finished,
    Parked,
    Prompt,
    Spawned,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.ids import child_agent_id
from swarm.store.connection import connect
from swarm.store.store import Store
from swarm.store.values import Claim
from tests.fleet import Fleet

PER_SPAWN = 100
NARROW, WIDE = 100, 2_000
"""Children of each agent that has any. No agent has more than 2 000."""
URL = "http://127.0.0.1:9"
"""Of a rehearsal that nobody calls."""
LONGEST_STEP_MS = 20.0
SLOWEST_APPEND_MS = 100.0


def run(report: Report, chosen: Namespace) -> None:
    """Each of them has begun and waits for a time far away."""
    for name, width, end in (
        ("a deep tree is cancelled", NARROW, _cancel),
        ("a wide tree is cancelled", WIDE, _cancel),
        ("the root of a deep tree ends", NARROW, _finish),
    ):
        with closing(Fleet()) as fleet:
            began = time.monotonic()
            root = claim_root(fleet, submit(fleet, URL, "giant"))
            made = grow(fleet.swarm.store, root, chosen.agents, width)
            report.note(f"{name}: {made:,} agents, made in {time.monotonic() - began:.0f} s")
            _measure(report, fleet, end, root)


def _measure(report: Report, fleet: Fleet, end: Callable[[Store, Claim], Any], root: Claim) -> None:
    other = claim_root(fleet, submit(fleet, URL, "other"))
    client = fleet.swarm.store.keyspace.client
    client.config_set("slowlog-log-slower-than", 2_000)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()
    stop, queue = multiprocessing.Event(), multiprocessing.SimpleQueue()  # type: ignore[var-annotated]
    beside = multiprocessing.Process(target=_append_on, args=(fleet.url, fleet.settings.key_prefix, other, stop, queue))
    beside.start()
    queue.get()
    began, steps = time.monotonic(), 1
    if end(fleet.swarm.store, root).rest:
        while fleet.swarm.store.jobs.settle(root.spec.job_id)[0]:
            steps += 1
    spent = time.monotonic() - began
    stop.set()
    appends = queue.get()
    beside.join()
    slow = [one["duration"] / 1e3 for one in client.slowlog_get(10_000)]
    report.note(f"ended in {steps:,} steps, {spent:.1f} s; {len(appends):,} appends of another job meanwhile")
    report.note(f"{sum(one > LONGEST_STEP_MS for one in slow)} steps took longer than {LONGEST_STEP_MS:g} ms")
    report.note(f"appends: p50 {quantile(appends, 0.5):.2f} ms, p99 {quantile(appends, 0.99):.2f} ms")
    report.figure("slowest append of another job", max(appends), " ms", target=SLOWEST_APPEND_MS)
    report.figure("longest step in Redis", max(slow, default=2.0), " ms", target=LONGEST_STEP_MS)


def _append_on(url: str, prefix: str, claim: Claim, stop: Event, queue: Any) -> None:
    store, number, taken = Store(connect(url), prefix), 1, []
    queue.put("ready")
    while not stop.is_set():
        began = time.monotonic()
        store.journals.append(claim, number, [Prompt(text="on")], activity="at work")
        taken.append((time.monotonic() - began) * 1e3)
        number += 1
        time.sleep(0.001)
    queue.put(taken)


def _cancel(store: Store, root: Claim) -> Any:
    return store.agents.cancel(root.agent_id, "stop")


def _finish(store: Store, root: Claim) -> Any:
    number = store.agents.get(root.agent_id).length + 1
    return store.agents.finish(root, number, Finished(state="completed", text="done"))


def grow(store: Store, root: Claim, count: int, width: int) -> int:
    """Make so many agents below a root, `width` children each, in breadth; each is parked once it has its children."""
    parents, made = [root], 0
    while made < count:
        parent, number = parents.pop(0), 0
        wide = min(width, count - made)
        for first in range(0, wide, PER_SPAWN):
            specs = [_child(parent.spec, index) for index in range(first, min(wide, first + PER_SPAWN))]
            number += 1
            store.agents.spawn(
                parent, number, Spawned(children={spec.agent_id: spec.agent_id for spec in specs}), specs
            )
            for spec in specs:
                claim = store.agents.claim(spec.agent_id, "bench", 36_000.0)
                assert isinstance(claim, Claim), claim
                parents.append(claim)
        made += wide
        if parent is not root:
            _park(store, parent, number)
    for claim in parents:
        _park(store, claim, 0)
    return made


def _park(store: Store, claim: Claim, length: int) -> None:
    condition = Condition(until=time.time() + 864_000)
    store.agents.park(claim, length + 1, Parked(condition=condition), condition)


def _child(parent: AgentSpec, index: int) -> AgentSpec:
    agent_id = child_agent_id(parent.agent_id, str(index))
    return parent.model_copy(update={"agent_id": agent_id, "parent_id": parent.agent_id, "depth": parent.depth + 1})
