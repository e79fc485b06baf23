"""Reads of evaluations, for HTTP, the page and MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.capabilities.evaluations.model import EvaluationRow, EvaluationView, list_row
from swarm.client.evaluations import evaluations_of, view_now
from swarm.client.operations import Invocation, Limit
from swarm.client.reads import READS


@READS.get("/evaluations", wrap="evaluations")
def list_evaluations(call: Invocation, limit: Limit = 20) -> list[EvaluationRow]:
    """The newest evaluations, newest first: their variants and cases, without runs."""
    return list(map(list_row, evaluations_of(call.swarm).all(limit)))


@READS.get("/evaluations/{evaluation}")
def get_evaluation(
    call: Invocation, evaluation: Annotated[str, Field(description="The evaluation's id.")]
) -> EvaluationView:
    """An evaluation: its variants, its cases and its runs with their scores so far."""
    return view_now(call.swarm, evaluations_of(call.swarm).get(evaluation))
