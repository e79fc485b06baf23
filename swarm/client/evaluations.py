"""The evaluations of a swarm, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.capabilities.evaluations.model import Evaluation, EvaluationView, view_evaluation
from swarm.capabilities.evaluations.store import Evaluations
from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway, RedisFull, UnknownAgent
from swarm.core.records import JobView

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm


def evaluations_of(swarm: Swarm) -> Evaluations:
    """Return the evaluations of a swarm."""
    return Evaluations(swarm.store.keyspace, longest_retention(swarm))


def longest_retention(swarm: Swarm) -> float:
    """Return the seconds after its end that a job is kept at the longest."""
    return max(swarm.settings.retention_seconds, *swarm.settings.retention_by_state.values(), 0.0)


def view_now(swarm: Swarm, evaluation: Evaluation) -> EvaluationView:
    """Return the table of an evaluation as it is now. Archived runs are recalled, because the row of one has no scores."""
    jobs = swarm.store.jobs.views([place.job_id for place in evaluation.runs()])
    return view_evaluation(evaluation, {one.id: _recall(swarm, one) for one in jobs})


def _recall(swarm: Swarm, job: JobView) -> JobView:
    try:
        return swarm.store.jobs.get(job.id) if job.archived else job
    except (ObjectsAway, ObjectRefused, ObjectMissing, RedisFull, UnknownAgent):
        return job
