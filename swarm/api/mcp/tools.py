"""The tools of clients: operations, and a tool that only models need.

No call is long: clients wait by calling again, so no client's time limit interrupts them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from swarm.agent.transcript import tell
from swarm.api.mcp.transcripts import render_part
from swarm.client.acts import ACTS
from swarm.client.operations import Folder, Invocation, Operation, Table
from swarm.client.reads import READS, Until
from swarm.core.ids import root_agent_id

_PAGE = 400
_COSTS = "each tool costs every client's context; programs have it over HTTP"
_SHARED = "a job's agents share it among themselves; the answer holds the result"
LEFT_OUT: dict[str, str] = {
    "get_agent": "list_agents tells it",
    "get_transcript": "read_transcript tells it as text",
    "get_mailbox": "read_transcript has what an agent has read",
    **dict.fromkeys(("get_snapshot", "get_rows", "stream_job"), "follow_job tells what happens"),
    **dict.fromkeys(("get_board", "list_pages", "get_page"), _SHARED),
    **dict.fromkeys(
        ("list_maps", "get_map", "get_results", "get_failures", "start_map", "retry_map", "cancel_map"), _COSTS
    ),
    **dict.fromkeys(("compact_agent", "choose_model", "tell_event"), _COSTS),
}
"""Operations that are no tools, and why."""


class TranscriptText(BaseModel):
    """A part of an agent's journal as text."""

    text: str
    next: int
    more: bool


OWN = Table()


@OWN.get("")
def read_transcript(
    call: Invocation,
    agent: Annotated[str, Field(description="An agent's id; a job's id stands for its first agent.")],
    after: Annotated[int, Field(ge=0, description="The `next` of the call before.")] = 0,
) -> TranscriptText:
    """An agent's history, part by part: its task, its replies, its calls and their results."""
    agent_id = root_agent_id(agent) if agent.startswith("job-") else agent
    store = call.swarm.store
    length = store.agents.get(agent_id).length
    text, last = render_part(tell(islice(store.journals.read(agent_id, after), _PAGE)), after)
    return TranscriptText(text=text, next=last, more=last < length)


_DEFAULTS: dict[str, Any] = {
    "until": (Until, "attention"),
    "workspace": (Annotated[Folder | None, Field(description="Absolute path. Default: this server's folder.")], None),
}
"""Fields with another default here: a waiting model is notified of questions, and a server over stdio has a folder."""


def _mount(one: Operation) -> Operation:
    fields = {name: field for name, field in _DEFAULTS.items() if name in one.takes.model_fields}
    return replace(one, path="", takes=create_model(one.takes.__name__, __base__=one.takes, **fields))


TOOLS = [_mount(one) for one in (*ACTS, *READS, *OWN) if one.name not in LEFT_OUT]
