"""From an event in Redis to the event stream of a tab of the page, and how long a tree of 1 000 agents takes to read."""

from __future__ import annotations

import json
import threading
import time
from argparse import Namespace
from contextlib import closing

from bench.measure import Report, quantile, spread
from tests.fleet import Fleet
from tests.flower import Flower, running_flower
from tests.job_world import JobWorld

EVENTS = 400
AGENTS = 1_000
TABS = 8
ROUNDS = 7


def run(report: Report, chosen: Namespace) -> None:
    """One Flower; the times are of one machine's clock, taken before the step and when the tab has the whole event."""
    with closing(Fleet()) as fleet, running_flower(fleet) as flower:
        world = JobWorld(fleet.swarm.store, fleet, team=False, max_agents=AGENTS + 1, max_running=AGENTS)
        for pause, what in ((0.1, "10 events a second"), (0.01, "up to 100 events a second")):
            delays = _measure(world, flower, pause, tabs=1)
            report.note(f"{what}: {spread(delays, ' ms', 1e3)}")
            report.figure(f"page, {what}, p95", quantile(delays, 0.95) * 1e3, " ms", target=30)
        delays = _measure(world, flower, 0.1, tabs=TABS)
        report.note(f"with {TABS} tabs: p95 {quantile(delays, 0.95) * 1e3:.1f} ms; {spread(delays, ' ms', 1e3)}")
        for number in range(AGENTS - 1):
            world.spawn(f"n{number}", teammate=False)
        took, zipped = [], 0
        for _ in range(ROUNDS):
            began = time.monotonic()
            found = flower.get(f"/api/jobs/{world.job_id}/snapshot", **{"Accept-Encoding": "gzip"})
            took.append(time.monotonic() - began)
            zipped = len(found.body)
        size = len(json.dumps(flower.read(f"jobs/{world.job_id}/snapshot")))
        report.note(
            f"a snapshot of {AGENTS} agents: {size / 1e3:.0f} kB, {zipped / 1e3:.0f} zipped, {quantile(took, 0.5) * 1e3:.0f} ms"
        )
        delays = _measure(world, flower, 0.1, tabs=1)
        report.figure(f"page, {AGENTS} agents, p95", quantile(delays, 0.95) * 1e3, " ms", target=30)


def _measure(world: JobWorld, flower: Flower, pause: float, *, tabs: int) -> list[float]:
    """How long each of some messages of an agent's life took to the first tab."""
    events = flower.read(f"jobs/{world.job_id}/snapshot")["events"]
    streams = [flower.stream(f"job={world.job_id}&events={events}") for _ in range(tabs)]
    store = world.store
    sent: dict[str, float] = {}
    got: dict[str, float] = {}

    def read() -> None:
        while len(got) < EVENTS:
            told = streams[0].next()
            for event in told.data.get("events", ()):
                got.setdefault(event["fields"].get("mark"), told.at)

    try:
        for stream in streams:
            stream.until("hello")
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        for number in range(EVENTS):
            sent[str(number)] = time.time()
            store.events.emit(world.job_id, "held", world.root, mark=str(number))
            time.sleep(pause)
        reader.join(30)
    finally:
        for stream in streams:
            stream.__exit__()
    return [got[mark] - at for mark, at in sent.items()]
