"""What a submission and a wait cost their client: CPU, function calls and round trips to Redis.

The baseline of the same run sends as many bytes as plainly as can be: one `json.dumps`, one XADD, one Celery message.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from bench.lives import WIDE
from bench.measure import Report, alternate
from swarm import Job
from swarm.core.ids import new_job_id, root_agent_id
from swarm.tasks.app import make_app
from tests.fleet import Fleet

JOBS = 200
LINES = [f"{number}.md" for number in range(JOBS)]
PROMPT = "Which public functions have no test?"
FILES = {
    "CLAUDE.md": "Use the formatter. @docs/style.md\n" * 40,
    "docs/style.md": "Short names.\n" * 200,
    ".claude/settings.json": '{"permissions": {"deny": ["Bash(rm:*)"], "ask": ["Bash(git push:*)"]}}',
    ".claude/agents/tester.md": "---\nname: tester\ndescription: Writes tests.\n---\n" + "Test it well.\n" * 40,
    ".claude/agents/writer.md": "---\nname: writer\ndescription: Writes pages.\n---\n" + "Write it well.\n" * 40,
    ".claude/skills/release/SKILL.md": "---\ndescription: Releases.\n---\n" + "Release it.\n" * 40,
}


def run(report: Report, chosen: Namespace) -> None:
    """No worker runs; one is announced, so that each submission sends its message."""
    with closing(Fleet()) as fleet:
        _fill(fleet.workspace)
        store = fleet.swarm.store
        store.fleet.staff("nobody", 1_000_000, 3_600.0)
        job = _submit(fleet)
        written = sum(len(text) for text in (store.agents.spec(root_agent_id(job.id)).model_dump_json(), PROMPT))
        bare = _make_bare(fleet, written)
        kinds: dict[str, Callable[[], Any]] = {"bare": bare, "submit": lambda: _submit(fleet)}
        for submit in kinds.values():
            _seconds(submit, JOBS)  # every connection is open
        rounds = alternate(5, *(lambda submit=submit: _seconds(submit, JOBS) for submit in kinds.values()))
        spent = {name: min(found) * 1e3 for name, found in zip(kinds, rounds, strict=True)}
        for name, submit in kinds.items():
            calls, trips = _calls(submit), _trips(fleet, submit)
            report.note(f"{name}: {spent[name]:.2f} ms of CPU, {calls:.0f} function calls, {trips:.2f} round trips")
        trips = _trips(fleet, lambda: fleet.swarm.map("{line}", over=LINES, workspace=fleet.workspace), 1)
        report.note(f"a map of {JOBS} lines: {trips / JOBS:.3f} round trips a line")
        job.cancel()
        report.note(
            f"a wait for an ended job: {_calls(job.wait):.0f} function calls, {_trips(fleet, job.wait):.2f} round trips"
        )
        medians = [statistics.median(found) for found in rounds]
        report.figure("submit, CPU", spent["submit"], " ms", target=1.5)
        report.figure("submit, CPU of a bare publication", medians[1] / medians[0], "×", target=4.0)


def _fill(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    for name, text in FILES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)


def _submit(fleet: Fleet) -> Job:
    return fleet.swarm.submit(PROMPT, agent="general-purpose", workspace=fleet.workspace, limits=WIDE)


def _make_bare(fleet: Fleet, size: int) -> Callable[[], Any]:
    client, app = fleet.swarm.store.keyspace.client, make_app(fleet.settings)

    def submit() -> None:
        job_id = new_job_id()
        client.xadd("bare", {"job": json.dumps({"id": job_id, "prompt": PROMPT, "spec": "x" * size})})
        with app.producer_pool.acquire(block=True) as producer:
            app.send_task("bare", args=({"job": job_id},), producer=producer, declare=[], ignore_result=True)

    return submit


def _seconds(submit: Callable[[], Any], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        submit()
    return (time.process_time() - began) / count


def _calls(submit: Callable[[], Any], count: int = 10) -> float:
    found = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    for _ in range(count):
        submit()
    sys.setprofile(None)
    return found / count


def _trips(fleet: Fleet, submit: Callable[[], Any], count: int = 20) -> float:
    """The number of times that Redis reads from the client."""
    client = fleet.swarm.store.keyspace.client
    before = client.info("stats")["total_reads_processed"]
    for _ in range(count):
        submit()
    # One more read is this function's own.
    return float(client.info("stats")["total_reads_processed"] - before - 1) / count
