"""The tools that clients have: operations, and what only models need of them.

No call is long: what takes time is waited for by calling again, so no client's time limit cuts it off.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from pydantic import BaseModel, Field

from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.api.mcp.transcripts import render_part
from swarm.client import reads
from swarm.client.acts import ACTS, StartedJob, place_order
from swarm.client.map_operations import MAP_OPERATIONS
from swarm.client.operations import Body, Folder, Invocation, Operation, Wait
from swarm.client.reads import READS, Until, wait_for_job
from swarm.core.ids import root_agent_id
from swarm.definitions.model import PermissionMode

_PAGE = 400
_COSTS = "each tool costs every client's context; programs have it over HTTP"
_SHARED = "what a job's agents share is for them; their answer tells what came of it"
LEFT_OUT: dict[str, str] = {
    "get_agent": "list_agents tells it",
    "get_transcript": "read_transcript tells it as text",
    "get_mailbox": "read_transcript has what an agent has read",
    **dict.fromkeys(("get_board", "list_pages", "get_page"), _SHARED),
    **dict.fromkeys((one.name for one in MAP_OPERATIONS), _COSTS),
    **dict.fromkeys(("compact_agent", "tell_event"), _COSTS),
}
"""Operations that are no tools, and why."""


class NewTask(Wait):
    """A job to start."""

    task: str = Field(
        min_length=1, description="Everything that the agents have to know: they see nothing of your conversation."
    )
    workspace: Folder | None = Field(
        default=None,
        description="Absolute path of the folder to work in, on the workers' hosts. Default: this server's folder.",
    )
    agent: str = Field(default=DEFAULT_AGENT, description="The type of the first agent; list_agent_types lists them.")
    title: str | None = None
    model: str | None = Field(default=None, description="haiku, sonnet, opus, or a full id.")
    mode: PermissionMode | None = Field(
        default=None, description="The most that agents may do without asking a person."
    )
    allow: list[str] = Field(
        default=[], description="Rules for calls that need no question: Bash(make:*), Edit(/docs/**)."
    )
    ask: list[str] = Field(default=[], description="Rules for calls that a person is asked about.")
    deny: list[str] = Field(default=[], description="Rules for calls that are never made.")
    budget_usd: float | None = Field(default=None, gt=0, description="The whole job stops at this cost.")
    timeout_seconds: float | None = Field(default=None, gt=0)
    check: str | None = Field(
        default=None, description="A shell command that must succeed before the work is accepted."
    )
    rubric: str | None = Field(
        default=None, description="Criteria that a grader must find met before the work is accepted."
    )
    result_schema: dict[str, Any] | None = Field(default=None, description="A JSON Schema for the answer.")
    network: bool = Field(default=False, description="Let the agents' processes use the network.")
    isolation: Literal["none", "worktree"] | None = Field(
        default=None, description="worktree: the agents work on a copy; a person takes it over with `swarm apply`."
    )
    idempotency_key: str | None = Field(default=None, description="The same key again starts no second job.")


class GetTask(reads.GetJob):
    """A job, and what is waited for."""

    until: Until = "attention"
    """What is waited for: the end, a question or a message to the person; or only the end."""


class ReadTranscript(Body):
    """Which part of a journal is returned."""

    agent: str
    """An agent's id; a job's id stands for its first agent."""
    after: int = Field(default=0, ge=0)
    """The `next` of the call before."""


class TranscriptText(BaseModel):
    """A part of an agent's journal as text."""

    text: str
    next: int
    more: bool


def start_job(call: Invocation) -> StartedJob:
    """Start a job: a tree of agents works on the task, on the fleet, and goes on whether or not anybody waits.

    It returns at once with the job's id. Look at it with get_job, follow it with follow_job.
    """
    order = call.given.model_dump(exclude={"task", "wait_seconds", "budget_usd", "timeout_seconds"})
    bounds = call.given.model_dump(include={"budget_usd", "timeout_seconds"}, exclude_none=True)
    order |= {"prompt": call.given.task, "limits": Limits(**bounds) if bounds else None}
    started = place_order(call, {**order, "workspace": order["workspace"] or call.folder})
    call.ready()
    after = "0" if started.new else "$"
    wait_for_job(call, started.job.id, call.given.wait_seconds, "attention", after=after)
    return started


def read_transcript(call: Invocation) -> TranscriptText:
    """An agent's history, part by part: its task, what it said, its calls and their results."""
    given: ReadTranscript = call.given
    agent_id = root_agent_id(given.agent) if given.agent.startswith("job-") else given.agent
    store = call.swarm.store
    length = store.agent(agent_id).length
    text, last = render_part(islice(store.journal(agent_id, given.after), _PAGE), given.after)
    return TranscriptText(text=text, next=last, more=last < length)


OWN = (
    Operation("POST", "", "submit", start_job, NewTask, StartedJob),
    Operation("GET", "", "read", read_transcript, ReadTranscript, TranscriptText),
)
_TAKES = {"get_job": GetTask}
"""Where a model's default is another one."""
TOOLS = tuple(
    replace(one, path="", takes=_TAKES.get(one.name, one.takes))
    for one in (*OWN, *READS, *ACTS, *MAP_OPERATIONS)
    if one.name not in LEFT_OUT
)
