"""The evaluations of a swarm, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.capabilities.evaluations.model import Evaluation, EvaluationView, view_evaluation
from swarm.capabilities.evaluations.store import Evaluations

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm


def evaluations_of(swarm: Swarm) -> Evaluations:
    """Return the evaluations of a swarm."""
    return Evaluations(swarm.store.keyspace, swarm.settings.retention_seconds)


def view_now(swarm: Swarm, evaluation: Evaluation) -> EvaluationView:
    """Return the table of an evaluation as it is now."""
    jobs = swarm.store.jobs.views([place.job_id for place in evaluation.runs()])
    return view_evaluation(evaluation, {one.id: one for one in jobs})
