"""The judgement of whole jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tests.chaos.check.dump import Job
from tests.chaos.check.families import check_family, failures
from tests.chaos.check.letters import check_letters, collect
from tests.chaos.check.lives import calls_of, check_history, entries_of, interruptions
from tests.chaos.check.verdict import Verdict


def judge(jobs: Iterable[Job], *, expect_failed: int = 0, waive: Collection[str] = ()) -> Verdict:
    """Look at every promise in each of these jobs, of whose agents `expect_failed` are to have been quarantined."""
    verdict = Verdict()
    for job in jobs:
        verdict.add(_judge_job(job, expect_failed))
    verdict.waive(waive)
    return verdict


def _judge_job(job: Job, expect_failed: int) -> Verdict:
    letters = collect(job)
    lives = job.lives.values()
    verdict = Verdict(
        jobs=1,
        agents=len(lives),
        entries=sum(len(history.journal) for history in lives),
        turns=sum(len(entries_of(history, "assistant")) for history in lives),
        calls=sum(len(calls_of(history)) for history in lives),
        effects=len(job.effects or ()),
        messages=sum(map(len, letters.read.values())),
        pairs=len(letters.read),
        refused=letters.refused,
        interrupted=sum(map(interruptions, lives)),
        failed=failures(job),
    )
    for history in lives:
        verdict.faults += check_history(history)
    verdict.faults += check_family(job, expect_failed=expect_failed)
    verdict.faults += check_letters(job, letters)
    return verdict
