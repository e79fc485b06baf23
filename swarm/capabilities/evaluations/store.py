"""Evaluations and scores in Redis. An evaluation is kept as long as its jobs; a score lives with its job."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import ValidationError

from swarm.capabilities.evaluations.model import Evaluation
from swarm.core.errors import ConfigurationError, UnknownEvaluation
from swarm.core.records import RunScore
from swarm.store.keyspace import Keyspace, no_job

_AT_ONCE = 200


class Evaluations:
    """The evaluations of one swarm."""

    def __init__(self, keyspace: Keyspace, retention_seconds: float) -> None:
        self._keyspace, self._seconds = keyspace, retention_seconds

    def keep(self, evaluation: Evaluation) -> Evaluation:
        """Make an evaluation; a repeated call changes nothing but how long it is kept."""
        document = evaluation.model_dump_json(by_alias=True)
        return _read(evaluation.id, *self._keyspace.run("keep_evaluation", evaluation.id, document, self._seconds))

    def note_runs(self, evaluation: Evaluation) -> None:
        """Note with the jobs of all runs that they are runs of this evaluation."""
        jobs = [place.job_id for place in evaluation.runs()]
        for first in range(0, len(jobs), _AT_ONCE):
            self._keyspace.run("note_runs", evaluation.id, *jobs[first : first + _AT_ONCE])

    def get(self, evaluation_id: str) -> Evaluation:
        """Return an evaluation. Raises `UnknownEvaluation`."""
        key = self._keyspace.key("evaluation", evaluation_id)
        document, created = self._keyspace.client.hmget(key, "document", "created")
        if document is None:
            raise UnknownEvaluation(evaluation_id)
        return _read(evaluation_id, document, created)

    def all(self, count: int) -> Iterator[Evaluation]:
        """Yield the newest evaluations, newest first."""
        for evaluation_id in self._keyspace.client.zrevrange(self._keyspace.key("evaluations"), 0, count - 1):
            try:
                yield self.get(evaluation_id)
            except UnknownEvaluation:
                continue  # it has expired


def _read(evaluation_id: str, document: str, created: str) -> Evaluation:
    return Evaluation.model_validate({**json.loads(document), "id": evaluation_id, "created_at": float(created)})


def make_score(*, passed: bool | None, points: float | None, note: str, by: str) -> RunScore:
    """Return a score of these values. Raises `ConfigurationError` for ones that it cannot have."""
    try:
        return RunScore(passed=passed, points=points, note=note, by=by)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"a score's {first['loc'][0]} cannot be so: {first['msg'].lower()}") from None


def score_job(keyspace: Keyspace, job_id: str, name: str, score: RunScore | None) -> None:
    """Set a job's score of that name; None removes it. Raises `UnknownAgent` if there is no such job."""
    document = "" if score is None else score.model_dump_json(exclude={"at"}, exclude_none=True)
    if not keyspace.run("score_job", job_id, name, document):
        raise no_job(job_id)
