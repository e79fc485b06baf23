"""The panel of scores and comparisons: a job's scores, its evaluation, and another job beside it."""

from __future__ import annotations

from typing import Any

from swarm.client.evaluations import evaluations_of, view_now
from swarm.client.swarm import Swarm
from swarm.core.errors import UnknownEvaluation
from swarm.replay.side_by_side import SideBySide
from swarm.web.panels.panel import Panel, PanelRequest

_OFFERED = 50


def read_comparison(asked: PanelRequest) -> dict[str, Any]:
    """Read a job's scores, its evaluation if it is a run of one, and the comparison with the job `beside`."""
    swarm, view = asked.swarm, asked.swarm.job(asked.job_id).view()
    beside = asked.query.get("beside", "")
    others = [{"id": one.id, "title": one.title} for one in swarm.jobs(_OFFERED) if one.id != asked.job_id]
    return {
        "scores": {name: one.model_dump() for name, one in view.scores.items()},
        "evaluation": _read_evaluation(swarm, view.evaluation),
        "others": others,
        "beside": SideBySide(swarm, asked.job_id, beside).document() if beside else None,
    }


def _read_evaluation(swarm: Swarm, evaluation_id: str) -> dict[str, Any] | None:
    try:
        evaluation = evaluations_of(swarm).get(evaluation_id) if evaluation_id else None
    except UnknownEvaluation:
        return None
    if evaluation is None:
        return None
    # The answers of all runs can be long, and the table shows none.
    return view_now(swarm, evaluation).model_dump(mode="json", exclude={"runs": {"__all__": {"answer"}}})


def score(asked: PanelRequest) -> dict[str, Any]:
    """Score the job as the visitor: `passed`, `points` and `note` of the body; without any the score is removed."""
    passed, points, note = (asked.body.get(name) for name in ("passed", "points", "note"))
    remove = not note and passed is None and points is None
    asked.swarm.job(asked.job_id).score(
        passed=passed, points=points, note=str(note or ""), by=asked.user, remove=remove
    )
    return {}


PANELS = (Panel("compare", "Compare", read_comparison, acts={"score": score}, stale_on=frozenset({"job_ended"})),)
