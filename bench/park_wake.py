"""From a child's end to its parked parent running again, against the start of a fresh agent."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing

from bench.lives import submit
from bench.measure import Report, spread
from bench.served import serve
from tests.fleet import Fleet

CHAINS = 20
DEPTH = 8


def run(report: Report, chosen: Namespace) -> None:
    """Chains of single children on an idle fleet; times are the server's, from the jobs' events (whole milliseconds)."""
    wakes: list[float] = []
    starts: list[float] = []
    with serve() as url, closing(Fleet()) as fleet:
        fleet.start_worker(2)
        submit(fleet, url, "TREE depth=8 fanout=1 steps=0").wait(60)
        for _ in range(CHAINS):
            job = submit(fleet, url, f"TREE depth={DEPTH} fanout=1 steps=0")
            woken: dict[str, float] = {}
            queued: dict[str, float] = {}
            for event in job.follow():
                if event is None:
                    continue
                match event.kind:
                    case "woken":
                        woken[event.agent_id] = event.at
                    case "spawned":
                        queued[event.agent_id] = event.at
                    case "running":
                        if event.agent_id in woken:
                            wakes.append(event.at - woken.pop(event.agent_id))
                        elif event.agent_id in queued:
                            starts.append(event.at - queued.pop(event.agent_id))
    report.note(f"child ended, parent woken → running: {spread(wakes, ' ms', 1e3)}")
    if starts:
        report.note(f"spawned → running, a fresh agent:    {spread(starts, ' ms', 1e3)}")
