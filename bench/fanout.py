"""1 → 20 agents of 5 turns and a tree of 31, a model that takes 200 ms: wall time and cache reads against one asyncio process."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing
from dataclasses import dataclass

from bench.bare import RequestPrefix, run_async
from bench.cpu import CpuMeter, describe, ours, roles
from bench.lives import submit
from bench.measure import Report, alternate
from bench.neutral import Neutral, neutral
from swarm import Limits
from swarm.agent.history import fold
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet, Worker

ROUNDS = 5


@dataclass(frozen=True)
class Shape:
    """A tree that is measured, and how much longer than the bare loop it may take."""

    name: str
    order: str
    agents: int
    target: float


SHAPES = (
    Shape("fanout 1 → 20", "TREE depth=1 fanout=20 steps=4 think=200", 21, 1.3),
    Shape("tree of 31", "TREE depth=2 fanout=5 steps=2 think=200", 31, 1.5),
)


def run(report: Report, chosen: Namespace) -> None:
    """One worker with 20 pool processes and the limits that a person gets; the trees are the same on both sides."""
    with neutral() as server, closing(Fleet()) as fleet:
        worker = fleet.start_worker(20)
        for shape in SHAPES:
            _measure(report, server, fleet, worker, shape)


def _measure(report: Report, server: Neutral, fleet: Fleet, worker: Worker, shape: Shape) -> None:
    cached: dict[str, list[float]] = {"swarm": [], "asyncio": []}
    cpu: dict[str, list[float]] = {"swarm": [], "asyncio": []}

    def noted(who: str, meter: CpuMeter) -> float:
        spent, tally = meter.spent(), server.tally()
        report.note(f"{shape.name}, {who}: {tally}; {describe(spent)}")
        cached[who].append(tally.cached)
        cpu[who].append(ours(spent))
        return tally.seconds

    def swarm() -> float:
        # The server forgets its cache with each tally, so nobody may believe that it holds anything.
        for key in fleet.swarm.store.keyspace.client.scan_iter(fleet.swarm.store.keyspace.key("warm*")):
            fleet.swarm.store.keyspace.client.delete(key)
        meter = CpuMeter(roles(fleet, worker))
        view = submit(fleet, server.url, shape.order, Limits()).wait(120)
        assert view.text == f"DONE {shape.agents}", view
        time.sleep(0.1)  # what the worker has to do after the end belongs to it
        return noted("swarm", meter)

    # A first run opens the processes' connections.
    job = submit(fleet, server.url, shape.order, Limits())
    job.wait(120)
    server.tally()
    agent_id = root_agent_id(job.id)
    opening = RequestPrefix.of(fold(agent_id, fleet.swarm.store.journals.read(agent_id)))

    def bare() -> float:
        every = roles(fleet, worker)
        meter = CpuMeter({role: every[role] for role in ("client", "model's server")})
        _, texts = run_async(server.url, [opening], fleet.workspace)
        assert texts == [f"DONE {shape.agents}"], texts
        return noted("asyncio", meter)

    swarms, bares = alternate(ROUNDS, swarm, bare)
    mine, theirs = statistics.median(swarms), statistics.median(bares)
    report.note(f"{shape.name}: swarm {mine:.2f} s ({min(swarms):.2f}–{max(swarms):.2f}), -c 20")
    report.note(f"{shape.name}: asyncio {theirs:.2f} s ({min(bares):.2f}–{max(bares):.2f})")
    report.figure(shape.name, mine / theirs, "×", target=shape.target)
    report.figure(
        f"{shape.name}, CPU", statistics.median(cpu["swarm"]) / statistics.median(cpu["asyncio"]), "×", target=1.3
    )
    report.figure(f"{shape.name}, not read from the cache", 1 - statistics.median(cached["swarm"]), "", target=0.03)
