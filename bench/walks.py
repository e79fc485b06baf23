"""How many files of the project a segment goes through, from its delivery to its first request of the model."""

from __future__ import annotations

import json
from argparse import Namespace
from contextlib import closing
from pathlib import Path

from bench.lives import submit
from bench.measure import Report
from bench.served import serve
from tests.fleet import Fleet

FIRST, WOKEN = 45, 35
_FOLLOWER = Path(__file__).with_name("walk_follower.py")


def run(report: Report, chosen: Namespace) -> None:
    """A real worker is followed by a profile function: `sitecustomize` puts it in place in each of its processes."""
    walks: dict[int, dict[str, int]] = {}
    with serve() as url, closing(Fleet()) as fleet:
        site, found = fleet.folder / "site", fleet.folder / "walks.jsonl"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_FOLLOWER.read_text())
        # With a key, as real ones have: such a worker can serve whoever comes.
        fleet.start_worker(1, PYTHONPATH=str(site), WALKS_FILE=str(found), ANTHROPIC_API_KEY="none")
        submit(fleet, url, "TREE depth=1 fanout=1 steps=0").wait(60)
        for line in found.read_text().splitlines():
            walk = json.loads(line)
            walks.setdefault(walk["generation"], walk["files"])
    for name, generation, target in (("first request", 1, FIRST), ("woken parent's request", 2, WOKEN)):
        files = walks[generation]
        report.figure(name, len(files), " files", target=target)
        report.note(" ".join(f"{file.removesuffix('.py')}:{number}" for file, number in sorted(files.items())))
