"""The command: `python -m tests.chaos.check SOURCE…`; its exit code is 1 when a promise was broken."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import redis

from tests.chaos.check.dump import Job, read, take_all
from tests.chaos.check.judge import judge
from tests.chaos.check.verdict import Verdict


def main() -> int:
    """Judge what the command line names, and say what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.check", description="Judge jobs by what Redis kept of them."
    )
    parser.add_argument(
        "sources", nargs="+", help="files that a run has written, or redis://, rediss:// and unix:// URLs"
    )
    parser.add_argument("--prefix", default="swarm", help="the first part of the keys, with a URL")
    parser.add_argument(
        "--job", action="append", default=[], help="only this job, with a URL; default: all that are over"
    )
    parser.add_argument("--expect-failed", type=int, default=0, help="so many agents of each job are to be quarantined")
    parser.add_argument("--waive", action="append", default=[], metavar="KIND:ABOUT", help="set these faults aside")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args()
    verdict = Verdict()
    for source in given.sources:
        jobs = _jobs(source, given.prefix, given.job)
        verdict.add(judge(jobs, expect_failed=given.expect_failed, waive=given.waive))
    print(json.dumps(verdict.as_json()) if given.json else render(verdict))
    return 1 if verdict.faults else 0


def _jobs(source: str, prefix: str, job_ids: list[str]) -> list[Job]:
    if "://" in source:
        return take_all(redis.Redis.from_url(source, decode_responses=True), prefix=prefix, job_ids=job_ids)
    return read(Path(source))


def render(verdict: Verdict) -> str:
    """The verdict for people."""
    lines = [
        f"{verdict.jobs} jobs, {verdict.agents} agents, {verdict.entries} journal entries, {verdict.turns} replies, "
        f"{verdict.calls} calls, {verdict.effects} effects, {verdict.messages} messages of {verdict.pairs} pairs",
        f"lost {verdict.count('lost')}, doubled {verdict.count('doubled')}, reordered {verdict.count('reordered')}, "
        f"unfinished {verdict.count('unfinished')}, wrong {verdict.count('wrong')}, left over {verdict.count('left')}; "
        f"interrupted calls {verdict.interrupted}, refused messages {verdict.refused}, quarantined {len(verdict.failed)}",
    ]
    for word, faults in (("BROKEN", verdict.faults), ("waived", verdict.waived)):
        lines += [f"{word} {fault.sort} {fault.where}: {fault.what}" for fault in faults]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
