"""A capability from outside the package with state of its own, in one folder and one row: the agents of a job vote."""

from __future__ import annotations

from typing import Any

from swarm.definitions.tools import Kind, ToolRow
from swarm.store.library import Library
from swarm.tools import Tool, ToolContext, ToolResult

TOOLS = [ToolRow("Vote", Kind.SHARED, "votes:VOTE", "choice", needs="several")]
STEPS = Library("votes")


def _vote(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    key = f"votes/{context.cause}"
    done, _, tally, *_ = context.store.keyspace.run(
        "vote", context.job_id, context.agent_id, key, given["choice"], library=STEPS
    )
    return ToolResult(text=f"The votes: {tally}", is_error=done != "ok")


VOTE = Tool(
    "Vote",
    "Vote for one of the choices that the job's agents vote about; it returns how the votes stand.",
    {"choice": {"type": "string"}},
    ["choice"],
    run=_vote,
)
