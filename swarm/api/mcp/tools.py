"""The tools that clients have: operations, and what only models need of them.

No call is long: what takes time is waited for by calling again, so no client's time limit cuts it off.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model

from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.api.mcp.transcripts import render_part
from swarm.client import acts
from swarm.client.acts import ACTS, StartedJob
from swarm.client.operations import Body, Folder, Invocation, Operation, Table, WaitSeconds
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
    **dict.fromkeys(("list_maps", "get_map", "get_results", "get_failures", "retry_map", "cancel_map"), _COSTS),
    **dict.fromkeys(("compact_agent", "tell_event"), _COSTS),
}
"""Operations that are no tools, and why."""


class NewTask(Body):
    """A job to start."""

    wait_seconds: WaitSeconds = 0
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


class TranscriptText(BaseModel):
    """A part of an agent's journal as text."""

    text: str
    next: int
    more: bool


OWN = Table()


@OWN.post("", "submit", takes=NewTask)
def start_job(call: Invocation, **given: Any) -> StartedJob:
    """Start a job: a tree of agents works on the task, on the fleet, and goes on whether or not anybody waits.

    It returns at once with the job's id. Look at it with get_job, follow it with follow_job.
    """
    wait_seconds = given.pop("wait_seconds")
    bounds = {name: given.pop(name) for name in ("budget_usd", "timeout_seconds")}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    given["limits"] = Limits(**bounds) if bounds else None
    given["workspace"] = given["workspace"] or call.folder
    started = acts.start_job(call, prompt=given.pop("task"), **given)
    call.ready()
    wait_for_job(call, started.job.id, wait_seconds, "attention", after="0" if started.new else "$")
    return started


@OWN.get("")
def read_transcript(
    call: Invocation,
    agent: Annotated[str, Field(description="An agent's id; a job's id stands for its first agent.")],
    after: Annotated[int, Field(ge=0, description="The `next` of the call before.")] = 0,
) -> TranscriptText:
    """An agent's history, part by part: its task, what it said, its calls and their results."""
    agent_id = root_agent_id(agent) if agent.startswith("job-") else agent
    store = call.swarm.store
    length = store.agent(agent_id).length
    text, last = render_part(islice(store.journal(agent_id, after), _PAGE), after)
    return TranscriptText(text=text, next=last, more=last < length)


def _mount(one: Operation) -> Operation:
    """The operation as a tool: a model that waits wants to hear of questions, too."""
    if "until" not in one.takes.model_fields:
        return replace(one, path="")
    until: dict[str, Any] = {"until": (Until, "attention")}
    return replace(one, path="", takes=create_model(one.takes.__name__, __base__=one.takes, **until))


TOOLS = [_mount(one) for one in (*OWN, *READS, *ACTS) if one.name not in LEFT_OUT]
