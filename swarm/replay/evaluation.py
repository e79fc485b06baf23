"""Runs an evaluation: submits a job for each run, scores each job that has ended, and can be interrupted at any moment.

All runs are submitted at the beginning, under derived ids, and queue on the fleet: from then on they need this process for their scores
only. A score is kept with its job. So a second process that continues submits and scores the missing runs, and pays for nothing twice: a
command that was interrupted is run again, a grader is a job with a derived id of its own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

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
from swarm.client.evaluations import evaluations_of, longest_retention, view_now
from swarm.client.jobs import as_ended
from swarm.client.order import Order, read_order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError, UnknownAgent, UnknownDefinition
from swarm.core.records import JobView
from swarm.replay.importer import IMPORTED, freeze
from swarm.replay.measuring import Measuring
from swarm.replay.past import Past, read_lines, read_past
from swarm.replay.resumption import Resumption, check_resumption, find_turn, go_on
from swarm.replay.run_options import options_of
from swarm.replay.sets import read_text


class Evaluator:
    """One evaluation under way."""

    def __init__(self, swarm: Swarm, evaluation: Evaluation, *, base_url: str | None = None) -> None:
        """With `base_url` all runs ask that rehearsal server."""
        self._swarm, self.evaluation, self._base_url = swarm, evaluation, base_url
        self._past: dict[str, Past] = {}
        self._measuring = Measuring(swarm, evaluation, self._files_of, base_url)

    def check(self) -> None:
        """Check the runs that have no job yet, and change nothing. Raises `ConfigurationError` for one that could not start."""
        checked = set[tuple[str, str]]()
        for place in self.evaluation.runs():
            which = (place.variant.name, place.case.name)
            if which in checked or self._swarm.store.jobs.exists(place.job_id):
                continue
            checked.add(which)
            with _named(place):
                if place.case.is_past:
                    past, wanted = self._resume_past(place)
                    check_resumption(self._swarm, past, wanted, served=self._base_url is not None)
                    folder = str(wanted.workspace or ".")
                else:
                    folder = str(self._prepare(place).folder)
                self._measuring.check(place, folder)

    def submit(self) -> list[Job]:
        """Submit the runs that have no job yet; returns the jobs of all, in their order. Raises the errors of `Swarm.submit`."""
        remove_old_copies(self._swarm)
        jobs = [self._submit(place) for place in self.evaluation.runs()]
        evaluations_of(self._swarm).note_runs(self.evaluation)
        return jobs

    def score_all(self) -> Iterator[RunView]:
        """Wait for the runs, score each that has none, and yield it. Commands run one after the other: they may need the machine."""
        places = {place.job_id: place for place in self.evaluation.runs()}
        for job in as_ended(self._swarm, places, who=self.evaluation.id):
            yield self._score(places[job.id])

    def view(self) -> EvaluationView:
        """The table so far."""
        return view_now(self._swarm, self.evaluation)

    # -- runs ----------------------------------------------------------------------------------------------

    def _submit(self, place: RunPlace) -> Job:
        if self._swarm.store.jobs.exists(place.job_id):
            return self._swarm.job(place.job_id)
        return self._continue_past(place) if place.case.is_past else self._swarm.place(self._prepare(place))

    def _prepare(self, place: RunPlace) -> PreparedJob:
        variant, options = place.variant, options_of(self.evaluation, place)
        if self._base_url is not None:
            options["base_url"] = self._base_url
        order = read_order(Order, variant.prompt.replace("{prompt}", place.case.prompt), **options)
        definitions = Path(variant.agents) if variant.agents else None
        return prepare_order(order, self._swarm.settings, definitions=definitions)

    def _continue_past(self, place: RunPlace) -> Job:
        past, wanted = self._resume_past(place)
        if wanted.workspace is not None:
            wanted = replace(wanted, workspace=self._copy(place, wanted.workspace))
        serve = None if self._base_url is None else lambda job_id: str(self._base_url)
        return go_on(self._swarm, past, wanted, serve, job_id=place.job_id).job

    def _resume_past(self, place: RunPlace) -> tuple[Past, Resumption]:
        """Return the past job of a run and how it is continued; a `workspace` is the folder to copy. Raises `ConfigurationError`."""
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
            budget_usd=self.evaluation.part_usd,
            ask_seconds=0.0,
        )
        folder = variant.workspace or case.workspace
        if not folder and self._has_files(past):
            return past, wanted
        folder = folder or past.fields["workspace"]
        if not Path(folder).is_dir():
            raise ConfigurationError(f"its folder {folder} is not on this machine; give the case a `workspace`")
        return past, replace(wanted, files="here", workspace=Path(folder))

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

    def _copy(self, place: RunPlace, source: Path) -> Path:
        """Copy a folder for one run, whose files would otherwise be those of all."""
        folder = self._folder(place)
        if folder.exists():
            shutil.rmtree(folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(source, folder, symlinks=True)
        return folder

    def _folder(self, place: RunPlace) -> Path:
        return _copies_of(self._swarm) / self.evaluation.id / place.job_id

    def _files_of(self, place: RunPlace, job: JobView) -> Path:
        return self._folder(place) if self._folder(place).is_dir() else Path(job.workspace)

    # -- scores --------------------------------------------------------------------------------------------

    def _score(self, place: RunPlace) -> RunView:
        job = self._swarm.job(place.job_id).view()
        known = job.scores.get(MEASURED)
        if known is None or known.passed is None:
            found = self._measuring.measure(place, job)
            if found is not None:
                score_job(self._swarm.store.keyspace, job.id, MEASURED, found)
                job = self._swarm.job(job.id).view()
        return view_run(place, job)


def remove_old_copies(swarm: Swarm) -> None:
    """Remove the folders of runs whose jobs are forgotten. Young ones stay: they may belong to a swarm with another Redis."""
    oldest = time.time() - longest_retention(swarm)
    for folder in _copies_of(swarm).glob("*/*"):
        if folder.lstat().st_ctime < oldest and not swarm.store.jobs.exists(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


def _copies_of(swarm: Swarm) -> Path:
    return swarm.settings.state_folder() / "evaluations"


@contextmanager
def _named(place: RunPlace) -> Iterator[None]:
    """Say which run an error is about."""
    try:
        yield
    except (ConfigurationError, UnknownAgent, UnknownDefinition) as error:
        raise ConfigurationError(f"{place.label}: {error}") from error
