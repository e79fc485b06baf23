"""Evaluations: cases, variants, their runs, and the table of their scores. Pure.

A run is a job. Its id is derived from the evaluation, the variant, the case and a number, so a repeated submission makes no second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.ids import job_id_for
from swarm.core.records import JobView, RunScore

MEASURED, PERSON = "eval", "person"
"""Names of scores: of the evaluation itself, and of a person, which outweighs all others."""
_NAME = Field(pattern=r"^[\w.@+-]{1,60}$")


class _SetPart(BaseModel):
    """Base of the parts of a file of cases; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Scoring(_SetPart):
    """How a run is scored. All given parts must hold; without any a person scores it."""

    score: str = ""
    """A command, run by `sh` as the person in the run's last files; it passes with the exit code 0."""
    expect: str = ""
    """A regular expression that the answer must match somewhere."""
    rubric: str = ""
    """Criteria that a grader, a job of its own after the run, must find met."""


class EvalCase(Scoring):
    """A case: a task, or a moment of a past job."""

    name: str = _NAME
    prompt: str = ""
    job: str = ""
    """Id of a past job to continue, instead of a prompt."""
    past: str = ""
    """File of `swarm export`, instead of a prompt."""
    start: str = Field(default="root:0", alias="from")
    """AGENT:TURN of a past job to continue from."""
    text: str = Field(default="", alias="with")
    """First message to the agent of a past job."""
    workspace: str = ""
    options: dict[str, Any] = {}
    """Options of its jobs."""

    @property
    def is_past(self) -> bool:
        """Whether the case continues a past job."""
        return bool(self.job or self.past)


class Variant(_SetPart):
    """Changes that all cases are run with."""

    name: str = _NAME
    agents: str = ""
    """Folder whose agent definitions are used."""
    workspace: str = ""
    """Folder to work in, instead of the cases' own: another version of the code."""
    prompt: str = "{prompt}"
    """The prompt of each case, around its own one."""
    options: dict[str, Any] = {}


class RunPlace(NamedTuple):
    """One run of an evaluation."""

    variant: Variant
    case: EvalCase
    number: int
    key: str
    """Idempotency key of its job."""

    @property
    def job_id(self) -> str:
        """Id of its job."""
        return job_id_for(self.key)

    @property
    def label(self) -> str:
        """Name for people."""
        return f"{self.case.name} / {self.variant.name}" + (f" ({self.number})" if self.number > 1 else "")


class Evaluation(BaseModel, frozen=True):
    """An evaluation as it was ordered."""

    id: str
    name: str
    variants: tuple[Variant, ...]
    cases: tuple[EvalCase, ...]
    folder: str = ""
    """Folder of its file of cases, for commands that score; empty: it has none."""
    times: int = 1
    budget_usd: float | None = None
    """Budget of all runs and graders together; each has an equal part."""
    grader_model: str = ""
    port: int = 0
    """Port of its rehearsal server, so that it is served there again after an interruption; 0: it has none."""
    created_at: float = 0.0

    def runs(self) -> Iterator[RunPlace]:
        """Yield all runs: the first runs of all cases before the second ones."""
        for number in range(1, self.times + 1):
            for case in self.cases:
                for variant in self.variants:
                    yield RunPlace(variant, case, number, f"{self.id}/{variant.name}/{case.name}/{number}")

    @property
    def part_usd(self) -> float | None:
        """The budget of one run or grader."""
        if self.budget_usd is None:
            return None
        graders = sum(bool(case.rubric) for case in self.cases)
        return self.budget_usd / ((len(self.cases) + graders) * len(self.variants) * self.times)


class RunView(BaseModel, frozen=True):
    """One run in a table."""

    variant: str
    case: str
    number: int
    job_id: str
    state: str
    """Empty: its job was not started, or has expired."""
    score: RunScore | None = None
    """The score that counts; None: it is not scored yet."""
    unscored: str = ""
    """Why a run that has ended could not be scored; a resumed evaluation scores it again."""
    answer: str = ""
    turns: int = 0
    tools: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


class VariantRow(BaseModel, frozen=True):
    """A variant's runs together. Turns, tokens, cost and seconds are medians of ended runs."""

    variant: str
    runs: int
    ended: int
    scored: int
    passed: int
    points: float | None = None
    """Mean of the scores' points."""
    turns: float = 0
    tokens: float = 0
    cost_usd: float = 0.0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Share of all runs that passed."""
        return self.passed / self.runs if self.runs else 0.0


class CaseRow(BaseModel, frozen=True):
    """A case: how many runs of each variant passed."""

    case: str
    passed: dict[str, int]


class EvaluationView(BaseModel, frozen=True):
    """An evaluation and its scores so far."""

    id: str
    name: str
    created_at: float
    times: int
    variants: list[VariantRow]
    cases: list[CaseRow]
    runs: list[RunView]

    @property
    def ended(self) -> bool:
        """Whether all runs have ended."""
        return all(row.ended == row.runs for row in self.variants)


class EvaluationRow(BaseModel, frozen=True):
    """An evaluation in a list, without its runs."""

    id: str
    name: str
    created_at: float
    times: int
    variants: list[str]
    cases: list[str]


class Regression(NamedTuple):
    """A case that most runs of another variant pass, and most of this one's do not."""

    variant: str
    case: str
    against: str


def score_of(scores: Mapping[str, RunScore]) -> RunScore | None:
    """Return the score that counts: a person's, else the evaluation's own; a note without a judgement does not count."""
    found = (scores.get(name) for name in (PERSON, MEASURED))
    return next((one for one in found if one is not None and one.passed is not None), None)


def view_run(place: RunPlace, job: JobView | None) -> RunView:
    """Return a run as its job is now; None: there is no job."""
    names = {"variant": place.variant.name, "case": place.case.name, "number": place.number, "job_id": place.job_id}
    if job is None:
        return RunView(**names, state="")
    return RunView(
        **names,
        state=job.state,
        score=score_of(job.scores),
        unscored=_say_unscored(job),
        answer=job.text,
        turns=job.turns,
        tools=job.tools,
        tokens=job.usage.total_tokens,
        cost_usd=job.cost_usd,
        seconds=(job.ended_at or job.created_at) - job.created_at,
    )


def _say_unscored(job: JobView) -> str:
    if job.archived:
        return "its scores are in the archive, which cannot be read here now"
    return job.scores[MEASURED].note if MEASURED in job.scores and score_of(job.scores) is None else ""


def view_evaluation(evaluation: Evaluation, jobs: Mapping[str, JobView]) -> EvaluationView:
    """Return the table of an evaluation from the jobs of its runs."""
    runs = [view_run(place, jobs.get(place.job_id)) for place in evaluation.runs()]
    ended = {one.job_id for one in runs if one.job_id in jobs and jobs[one.job_id].ended}
    return EvaluationView(
        id=evaluation.id,
        name=evaluation.name,
        created_at=evaluation.created_at,
        times=evaluation.times,
        variants=[
            _sum_up(each.name, [one for one in runs if one.variant == each.name], ended) for each in evaluation.variants
        ],
        cases=[
            CaseRow(
                case=case.name,
                passed={
                    each.name: sum(_passed(one) for one in runs if (one.variant, one.case) == (each.name, case.name))
                    for each in evaluation.variants
                },
            )
            for case in evaluation.cases
        ],
        runs=runs,
    )


def _sum_up(variant: str, runs: Sequence[RunView], ended: set[str]) -> VariantRow:
    over = [one for one in runs if one.job_id in ended]
    scores = [one.score for one in runs if one.score is not None]
    points = [one.points for one in scores if one.points is not None]

    def middle(name: str) -> float:
        return median(getattr(one, name) or 0 for one in over) if over else 0

    return VariantRow(
        variant=variant,
        runs=len(runs),
        ended=len(over),
        scored=len(scores),
        passed=sum(map(_passed, runs)),
        points=fmean(points) if points else None,
        **{name: middle(name) for name in ("turns", "tokens", "cost_usd", "seconds")},
    )


def _passed(run: RunView) -> bool:
    return run.score is not None and run.score.passed is True


def list_row(evaluation: Evaluation) -> EvaluationRow:
    """Return the row of an evaluation in a list."""
    return EvaluationRow(
        id=evaluation.id,
        name=evaluation.name,
        created_at=evaluation.created_at,
        times=evaluation.times,
        variants=[one.name for one in evaluation.variants],
        cases=[one.name for one in evaluation.cases],
    )


def find_gaps(view: EvaluationView, variant: str | None = None) -> list[RunView]:
    """Return the runs without a score, of this variant or of all; nothing can be said about their cases."""
    return [one for one in view.runs if one.score is None and variant in (None, one.variant)]


def find_regressions(view: EvaluationView, baseline: EvaluationView, against: str) -> list[Regression]:
    """Return the cases that most runs of the variant `against` pass in the baseline, and most of another variant's do not.

    Cases that the baseline lacks are left out.
    """
    known = {row.case: row.passed.get(against, 0) * 2 >= baseline.times for row in baseline.cases}
    return [
        Regression(variant, row.case, against)
        for row in view.cases
        for variant, passed in row.passed.items()
        if known.get(row.case) and passed * 2 < view.times and not (variant == against and view.id == baseline.id)
    ]
