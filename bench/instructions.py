"""Start-up of a job with 40 KiB of instruction files, against the same job without: what they add until the model is asked."""

from __future__ import annotations

import os
import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.measure import Report, alternate, spread
from swarm import Limits
from tests.fleet import Fleet
from tests.waiting import wait_for

ROUNDS = 120
FILES = 8


def run(report: Report, chosen: Namespace) -> None:
    """Jobs with and without in turns, on the same fleet, each with a workspace of its kind; the first ones do not count."""
    with closing(Fleet()) as fleet:
        # Nothing of whose home this is.
        os.environ["HOME"] = str(fleet.folder)
        server = fleet.rehearse("tree")
        fleet.start_worker(2)
        bare, full = fleet.folder / "bare", fleet.folder / "full"
        for folder in (bare, full):
            (folder / ".git").mkdir(parents=True)
        for number in range(FILES):
            (full / f"part-{number}.md").write_text("A line that says how things are done here.\n" * 118)
        (full / "CLAUDE.md").write_text("".join(f"See @part-{number}.md\n" for number in range(FILES)))

        def start(folder: object) -> float:
            seen, before = len(server.requests), time.time()
            job = fleet.swarm.submit(
                "TREE depth=0 steps=0",
                agent="general-purpose",
                workspace=str(folder),
                base_url=server.url,
                limits=Limits(max_depth=2),
            )
            wait_for("a request", lambda: len(server.requests) > seen, 30)
            arrived = server.requests[-1].time
            job.wait(30)
            return arrived - before

        alternate(6, lambda: start(bare), lambda: start(full))
        without, given = alternate(ROUNDS, lambda: start(bare), lambda: start(full))
        report.note(f"submit called → request, without: {spread(without, ' ms', 1e3)}")
        report.note(f"submit called → request, 40 KiB:  {spread(given, ' ms', 1e3)}")
        # Of neighbours in time: what else the machine does falls on both alike.
        more = statistics.median(one - other for one, other in zip(given, without, strict=True))
        report.note(f"ratio of the medians: {statistics.median(given) / statistics.median(without):.2f}")
        report.figure("instruction files, added to a start (p50)", more * 1e3, " ms", target=5)
