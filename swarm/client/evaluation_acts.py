"""Acts on scores of jobs, for HTTP, the page and MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.capabilities.evaluations.model import PERSON
from swarm.client.acts import ACTS
from swarm.client.operations import Invocation, JobId
from swarm.core.records import JobView


@ACTS.post("/jobs/{job}/score", "send")
def score_job(
    call: Invocation,
    job: JobId,
    name: Annotated[str, Field(min_length=1, max_length=60, description="Name of the score.")] = PERSON,
    passed: Annotated[bool | None, Field(description="Whether the work is right.")] = None,
    points: Annotated[float | None, Field(ge=0, le=1, description="How good it is.")] = None,
    note: Annotated[str, Field(max_length=2_000, description="A note about the run.")] = "",
) -> JobView:
    """Score a job's work, or write a note about it; all fields empty: remove the score of that name."""
    found = call.swarm.job(job)
    remove = passed is None and points is None and not note
    found.score(name, passed=passed, points=points, note=note, by=call.by, remove=remove)
    return found.view()
