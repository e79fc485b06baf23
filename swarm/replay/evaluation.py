"""Runs an evaluation: submits a job for each run, scores each job that has ended, and can be interrupted at any moment.

All runs are submitted at the beginning, under derived ids, and queue on the fleet: from then on they need this process for their scores
only. A score is kept with its job. So a second process that continues submits and scores the missing runs, and pays for nothing twice: a
command that was interrupted is run again, a grader is a job with a derived id of its own.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.agent.outcomes.grader import grader_definition
from swarm.agent.outcomes.messages import ask_grader, read_grade
from swarm.capabilities.evaluations.model import (
    MEASURED,
    EvalCase,
    Evaluation,
    EvaluationView,
    RunPlace,
    RunView,
    view_run,
)
from swarm.capabilities.evaluations.store import score_job
from swarm.client.evaluations import evaluations_of, view_now
from swarm.client.order import Order, read_order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError, NoWork
from swarm.core.ids import root_agent_id
from swarm.core.records import JobView, Limits, RunScore
from swarm.definitions.model import Outcome
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import first_mode
from swarm.replay.importer import IMPORTED, freeze
from swarm.replay.past import Past, read_lines, read_past
from swarm.replay.resumption import Resumption, find_turn, go_on
from swarm.replay.score import Score, score
from swarm.replay.sets import read_text

_AT_ONCE = 32
"""Runs that are waited for at once; the fleet decides how many work."""
_ISOLATION = "worktree"
"""Each run has a copy of the files, unless its options say otherwise."""


class Evaluator:
    """One evaluation under way."""

    def __init__(self, swarm: Swarm, evaluation: Evaluation, *, base_url: str | None = None) -> None:
        """With `base_url` all runs ask that rehearsal server."""
        self._swarm, self.evaluation, self._base_url = swarm, evaluation, base_url
        self._past: dict[str, Past] = {}

    def submit(self) -> list[Job]:
        """Submit the runs that have no job yet; returns the jobs of all, in their order. Raises the errors of `Swarm.submit`."""
        jobs = [self._submit(place) for place in self.evaluation.runs()]
        evaluations_of(self._swarm).note_runs(self.evaluation)
        return jobs

    def score_all(self) -> Iterator[RunView]:
        """Wait for the runs, score each that has none, and yield it. Commands run one after the other: they may need the machine."""
        places = list(self.evaluation.runs())
        with ThreadPoolExecutor(min(_AT_ONCE, len(places))) as pool:
            waits = {pool.submit(self._swarm.job(place.job_id).wait): place for place in places}
            try:
                for done in as_completed(waits):
                    yield self._score(waits[done], done.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def view(self) -> EvaluationView:
        """The table so far."""
        return view_now(self._swarm, self.evaluation)

    # -- runs ----------------------------------------------------------------------------------------------

    def _submit(self, place: RunPlace) -> Job:
        if self._swarm.store.jobs.exists(place.job_id):
            return self._swarm.job(place.job_id)
        return self._continue_past(place) if place.case.is_past else self._start(place)

    def _start(self, place: RunPlace) -> Job:
        variant, case = place.variant, place.case
        options: dict[str, Any] = {
            "isolation": _ISOLATION,
            "ask_seconds": 0.0,
            "title": f"{self.evaluation.name}: {place.label}",
        }
        options |= case.options | variant.options | {"idempotency_key": place.key}
        options["workspace"] = variant.workspace or case.workspace
        if (part := self.evaluation.part_usd) is not None:
            options["limits"] = {"budget_usd": part, **(options.get("limits") or {})}
        if self._base_url is not None:
            options["base_url"] = self._base_url
        order = read_order(Order, variant.prompt.replace("{prompt}", case.prompt), **options)
        definitions = Path(variant.agents) if variant.agents else None
        return self._swarm.place(prepare_order(order, self._swarm.settings, definitions=definitions))

    def _continue_past(self, place: RunPlace) -> Job:
        variant, case = place.variant, place.case
        past = self._read_past(case)
        agent_id, turn = find_turn(past, case.start)
        wanted = Resumption(
            agent_id,
            turn,
            case.text,
            variant.options.get("model") or case.options.get("model"),
            agents=Path(variant.agents) if variant.agents else None,
            several=True,
        )
        folder = variant.workspace or case.workspace
        if folder or not self._has_files(past):
            wanted = replace(wanted, files="here", workspace=self._copy(place, folder or past.fields["workspace"]))
        serve = None if self._base_url is None else lambda job_id: str(self._base_url)
        return go_on(self._swarm, past, wanted, serve, job_id=place.job_id).job

    def _read_past(self, case: EvalCase) -> Past:
        source = case.past or case.job
        if source not in self._past:
            if case.past:
                lines = read_text(Path(case.past)).splitlines(keepends=True)
                self._past[source] = freeze(read_lines(lines, case.past))
            else:
                self._past[source] = read_past(self._swarm.store, case.job)
        return self._past[source]

    def _has_files(self, past: Past) -> bool:
        return past.fields.get(IMPORTED) != "1" and past.fields.get("files", "shared") != "shared"

    def _copy(self, place: RunPlace, source: str) -> Path:
        """Copy a folder for one run, whose files would otherwise be those of all."""
        folder = self._folder(place)
        if not Path(source).is_dir():
            raise ConfigurationError(
                f"the case {place.case.name}: its folder {source} is not on this machine; give the case a `workspace`"
            )
        if folder.exists():
            shutil.rmtree(folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(source, folder, symlinks=True)
        return folder

    def _folder(self, place: RunPlace) -> Path:
        return self._swarm.settings.state_folder() / "evaluations" / self.evaluation.id / place.job_id

    # -- scores --------------------------------------------------------------------------------------------

    def _score(self, place: RunPlace, job: JobView) -> RunView:
        if MEASURED not in job.scores and (found := self._measure(place, job)) is not None:
            score_job(self._swarm.store.keyspace, job.id, MEASURED, found)
            job = self._swarm.job(job.id).view()
        return view_run(place, job)

    def _measure(self, place: RunPlace, job: JobView) -> RunScore | None:
        case = place.case
        if job.state != "completed":
            return RunScore(passed=False, points=0.0, note=_shorten(job.reason or job.state), by="swarm eval")
        parts: list[tuple[bool, float, str]] = []
        if case.expect:
            passed = re.search(case.expect, job.text, re.MULTILINE) is not None
            parts.append((passed, float(passed), "" if passed else f"the answer does not match {case.expect}"))
        if case.score and all(one[0] for one in parts):
            parts.append(self._run_command(place, job))
        if case.rubric and all(one[0] for one in parts):
            graded = self._ask_grader(place, job)
            if graded.data is None:
                why = f"the grader {graded.id} gave no verdict: {graded.reason or graded.state}"
                return RunScore(note=_shorten(why), by="swarm eval")
            passed, summary, _ = read_grade(graded.data)
            parts.append((passed, float(passed), summary))
        if not parts:
            return None
        note = "; ".join(one[2] for one in parts if one[2])
        passed = all(one[0] for one in parts)
        return RunScore(passed=passed, points=min(one[1] for one in parts), note=_shorten(note), by="swarm eval")

    def _run_command(self, place: RunPlace, job: JobView) -> tuple[bool, float, str]:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="swarm-answer-") as answer:
            answer.write(job.text)
            answer.flush()
            names = {"SWARM_ANSWER": answer.name, "SWARM_CASE": place.case.name, "SWARM_VARIANT": place.variant.name}
            names["SWARM_SET"] = self.evaluation.folder
            figures = {"SWARM_AGENTS": job.agents, "SWARM_TURNS": job.turns, "SWARM_TOKENS": job.usage.total_tokens}
            names |= {name: str(value) for name, value in figures.items()}
            found = score(self._swarm, job.id, str(self._files_of(place, job)), place.case.score, environment=names)
        return found.passed, _points(found), found.said

    def _files_of(self, place: RunPlace, job: JobView) -> Path:
        return self._folder(place) if self._folder(place).is_dir() else Path(job.workspace)

    def _ask_grader(self, place: RunPlace, job: JobView) -> JobView:
        """Have a grader judge the run: a job of its own, which a repeat finds again."""
        case, swarm = place.case, self._swarm
        try:
            folder = swarm.work(root_agent_id(job.id)).check_out()
        except NoWork:
            folder = self._files_of(place, job)
        task = swarm.store.agents.spec(root_agent_id(job.id)).prompt
        order = Order(
            ask_grader(task, Outcome(rubric=case.rubric), job.text, ""),
            agent="answer",
            title=f"{self.evaluation.name}: grade {place.label}",
            workspace=folder,
            model=self.evaluation.grader_model or None,
            base_url=self._base_url or case.options.get("base_url"),
            ask_seconds=0.0,
            idempotency_key=f"{place.key}/grader",
            limits=None if self.evaluation.part_usd is None else Limits(budget_usd=self.evaluation.part_usd),
        )
        prepared, definition = prepare_order(order, swarm.settings), grader_definition()
        changes = {"definition": definition, "mode": first_mode(definition, prepared.spec.mode)}
        spec = prepared.spec.model_copy(update={**changes, "rules": definition_rules(definition)})
        return swarm.place(replace(prepared, spec=spec)).wait()


def _points(found: Score) -> float:
    """The points that a command's last line says, from 0 to 1; else 1 if it passed."""
    try:
        points = float(found.said)
    except ValueError:
        return float(found.passed)
    return points if 0 <= points <= 1 else float(found.passed)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:500]
