"""Measures an evaluation's runs by the answer, by a command and by a grader.

A trouble of this machine is no score: the run is left without a judgement, with the reason, and the next process measures it again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from swarm.agent.outcomes.grader import grader_definition
from swarm.agent.outcomes.messages import ask_grader, read_grade
from swarm.capabilities.evaluations.model import Evaluation, RunPlace
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import (
    ConfigurationError,
    GitFailed,
    HubAway,
    NoWork,
    ObjectMissing,
    ObjectRefused,
    ObjectsAway,
    UnknownAgent,
)
from swarm.core.ids import job_id_for, root_agent_id
from swarm.core.records import JobView, Limits, RunScore
from swarm.definitions.model import Outcome
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import first_mode
from swarm.replay.score import Score, score

_BY = "swarm eval"
_TROUBLES = (ConfigurationError, GitFailed, HubAway, ObjectsAway, ObjectMissing, ObjectRefused, OSError)


class _ScorePart(NamedTuple):
    """The result of one kind of scoring."""

    passed: bool | None
    """None: it could not be found out."""
    points: float
    note: str


class Measuring:
    """Measures the runs of one evaluation; `folder_of` returns the folder that a run worked in."""

    def __init__(
        self,
        swarm: Swarm,
        evaluation: Evaluation,
        folder_of: Callable[[RunPlace, JobView], Path],
        base_url: str | None,
    ) -> None:
        self._swarm, self._evaluation, self._folder_of, self._base_url = swarm, evaluation, folder_of, base_url

    def measure(self, place: RunPlace, job: JobView) -> RunScore | None:
        """Score a run that has ended. None: a person does. A score that is neither passed nor failed says why there is none."""
        if job.state != "completed":
            return RunScore(passed=False, points=0.0, note=_shorten(job.reason or job.state), by=_BY)
        parts: list[_ScorePart] = []
        try:
            for part in self._parts(place, job):
                if part.passed is None:
                    return RunScore(note=_shorten(part.note), by=_BY)
                parts.append(part)
                if not part.passed:
                    break
        except _TROUBLES as error:
            return RunScore(note=_shorten(f"{error}" or type(error).__name__), by=_BY)
        if not parts:
            return None
        note = _shorten("; ".join(one.note for one in parts if one.note))
        passed = all(one.passed for one in parts)
        return RunScore(passed=passed, points=min(one.points for one in parts), note=note, by=_BY)

    def check(self, place: RunPlace, folder: str) -> None:
        """Raise `ConfigurationError` if no grader of this run could start."""
        if place.case.rubric:
            prepare_order(self._grader_order(place, ".", "", Path(folder)), self._swarm.settings)

    def _parts(self, place: RunPlace, job: JobView) -> Iterator[_ScorePart]:
        case = place.case
        if case.expect:
            passed = re.search(case.expect, job.text, re.MULTILINE) is not None
            yield _ScorePart(passed, float(passed), "" if passed else f"the answer does not match {case.expect}")
        if case.score:
            yield self._run_command(place, job)
        if case.rubric:
            yield self._ask_grader(place, job)

    def _run_command(self, place: RunPlace, job: JobView) -> _ScorePart:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="swarm-answer-") as answer:
            answer.write(job.text)
            answer.flush()
            names = {"SWARM_ANSWER": answer.name, "SWARM_CASE": place.case.name, "SWARM_VARIANT": place.variant.name}
            names["SWARM_SET"] = self._evaluation.folder
            figures = {"SWARM_AGENTS": job.agents, "SWARM_TURNS": job.turns, "SWARM_TOKENS": job.usage.total_tokens}
            names |= {name: str(value) for name, value in figures.items()}
            folder = str(self._folder_of(place, job))
            found = score(self._swarm, job.id, folder, place.case.score, environment=names)
        return _ScorePart(None if found.void else found.passed, _points(found), found.said)

    # -- graders -------------------------------------------------------------------------------------------

    def _ask_grader(self, place: RunPlace, job: JobView) -> _ScorePart:
        """Have a grader judge the run: a job of its own, which a repeat finds again."""
        key, spent = self._find_grader(place)
        part = self._evaluation.part_usd
        if self._swarm.store.jobs.exists(job_id_for(key)):
            graded = self._swarm.job(job_id_for(key)).wait()
        elif part is not None and spent >= part:
            return _ScorePart(None, 0.0, "graders without a verdict have spent this run's part of the budget for them")
        else:
            graded = self._start_grader(place, job, key, spent).wait()
        if graded.data is None:
            return _ScorePart(None, 0.0, f"the grader {graded.id} gave no verdict: {graded.reason or graded.state}")
        passed, summary, _ = read_grade(graded.data)
        return _ScorePart(passed, float(passed), summary)

    def _find_grader(self, place: RunPlace) -> tuple[str, float]:
        """Return the idempotency key of the first grader that did not end without a verdict, and the cost of those before it."""
        spent = 0.0
        for number in count(1):
            key = f"{place.key}/grader" + (f"/{number}" if number > 1 else "")
            try:
                found = self._swarm.job(job_id_for(key)).view()
            except UnknownAgent:
                break
            if not found.ended or found.data is not None:
                break
            spent += found.cost_usd or 0.0
        return key, spent

    def _start_grader(self, place: RunPlace, job: JobView, key: str, spent: float) -> Job:
        swarm = self._swarm
        try:
            folder = swarm.work(root_agent_id(job.id)).check_out()
        except NoWork:
            folder = self._folder_of(place, job)
        task = swarm.store.agents.spec(root_agent_id(job.id)).prompt
        asked = ask_grader(task, Outcome(rubric=place.case.rubric), job.text, "")
        order = self._grader_order(place, asked, key, folder, spent)
        prepared, definition = prepare_order(order, swarm.settings), grader_definition()
        changes = {"definition": definition, "mode": first_mode(definition, prepared.spec.mode)}
        spec = prepared.spec.model_copy(update={**changes, "rules": definition_rules(definition)})
        return swarm.place(replace(prepared, spec=spec))

    def _grader_order(self, place: RunPlace, asked: str, key: str, folder: Path, spent: float = 0.0) -> Order:
        evaluation, part = self._evaluation, self._evaluation.part_usd
        return Order(
            asked,
            agent="answer",
            title=f"{evaluation.name}: grade {place.label}",
            workspace=folder,
            model=evaluation.grader_model or None,
            base_url=self._base_url or place.case.options.get("base_url"),
            ask_seconds=0.0,
            idempotency_key=key or None,
            limits=None if part is None else Limits(budget_usd=part - spent),
        )


def _points(found: Score) -> float:
    """The points that a command's last line says, from 0 to 1; else 1 if it passed."""
    try:
        points = float(found.said)
    except ValueError:
        return float(found.passed)
    return points if 0 <= points <= 1 else float(found.passed)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:500]
