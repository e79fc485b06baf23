"""What the page mounts: every act, and reads of its own, which it folds patches into."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, RootModel

from swarm.agent.spec import DEFAULT_AGENT
from swarm.client.acts import ACTS, StartedJob, start_job
from swarm.client.failures import NotThere
from swarm.client.map_operations import MAP_OPERATIONS
from swarm.client.operations import Body, Invocation, OfAgent, OfJob, Operation
from swarm.client.reads import READS
from swarm.core.records import Limits
from swarm.definitions.model import PermissionMode
from swarm.web import reads, transcripts
from swarm.web.panels import PANELS, PanelRequest

LEFT_OUT: dict[str, str] = {
    one.name: "the page has snapshots and a stream; a read that waits would hold up its few threads" for one in READS
} | {one.name: "the page shows no maps" for one in MAP_OPERATIONS}
"""Operations that the page does not mount, and why."""


class Shown(RootModel[Any]):
    """JSON for the page, which alone knows its shape and changes with it."""


class LiveJob(RootModel[dict[str, Any]]):
    """A job with its agents, open questions and last messages, and `events`, the cursor that a stream goes on from."""


class Start(Body):
    """A job to start."""

    prompt: str
    workspace: str = Field(min_length=1)
    agent: str = DEFAULT_AGENT
    title: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    limits: Limits | None = None
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    network: bool = False
    ask_seconds: float | None = Field(default=None, ge=0)
    priority: int = 1


class ListRows(Body):
    """Which jobs are listed."""

    count: int = 50
    before: str = ""


class StartPlace(Body):
    """Where a job is to be started."""

    workspace: str | None = None


class JournalPart(OfAgent):
    """Which page of a journal is shown."""

    after: int | None = None
    before: int | None = None
    turns: int | None = None
    count: int = 200


class OneEntry(OfAgent):
    """An entry by its number."""

    number: int


class OneOutput(OfAgent):
    """A kept output by its key."""

    key: str


class OfPanel(OfJob):
    """A panel, and what only it knows."""

    model_config = ConfigDict(extra="allow")
    panel: str
    agent: str | None = None


class ActOfPanel(OfPanel):
    """An act of a panel."""

    act: str


def list_rows(call: Invocation) -> Shown:
    """The newest jobs, and the cursor of their changes."""
    return Shown(reads.read_jobs(call.swarm, call.given.count, call.given.before))


def get_start(call: Invocation) -> Shown:
    """What a job can be started with in a folder."""
    return Shown(reads.read_start(call.swarm, call.given.workspace))


def get_snapshot(call: Invocation) -> LiveJob:
    """A job as those see it who watch: what its stream tells from the cursor `events` on folds into this."""
    return LiveJob(reads.read_job(call.swarm, call.given.job))


def show_agent(call: Invocation) -> Shown:
    """An agent with what it was started with, and its answer."""
    return Shown(transcripts.read_agent(call.swarm, call.given.agent))


def show_journal(call: Invocation) -> Shown:
    """A page of an agent's journal."""
    given = call.given.model_dump(exclude={"agent"})
    return Shown(transcripts.read_journal(call.swarm, call.given.agent, **given))


def show_mail(call: Invocation) -> Shown:
    """The last messages of an agent, and the turn in which each was read."""
    return Shown(transcripts.read_mailbox(call.swarm, call.given.agent))


def show_entry(call: Invocation) -> Shown:
    """One entry of a journal, uncut."""
    return Shown(transcripts.read_entry(call.swarm, call.given.agent, call.given.number))


def show_output(call: Invocation) -> Shown:
    """A tool's output that was too long for the conversation."""
    return Shown(transcripts.read_output(call.swarm, call.given.agent, call.given.key))


def show_panel(call: Invocation) -> Shown:
    """What a panel shows of a job."""
    name = call.given.panel
    if name not in PANELS:
        raise NotThere(f"there is no panel {name}")
    return Shown({"panel": name, "now": call.swarm.store.now(), "data": PANELS[name].read(_ask_panel(call))})


def do_in_panel(call: Invocation) -> Shown:
    """An act of a panel."""
    name, act = call.given.panel, call.given.act
    run = PANELS[name].acts.get(act) if name in PANELS else None
    if run is None:
        raise NotThere(f"the panel {name} has no act {act}")
    return Shown({"data": run(_ask_panel(call))})


def _ask_panel(call: Invocation) -> PanelRequest:
    given, more = call.given, dict(call.given.model_extra or {})
    return PanelRequest(call.swarm, given.job, given.agent, more, more, call.by)


SNAPSHOT = Operation("GET", "/jobs/{job}/snapshot", "read", get_snapshot, OfJob, LiveJob)
OWN = (
    SNAPSHOT,
    Operation("GET", "/jobs", "read", list_rows, ListRows, Shown),
    Operation("POST", "/jobs", "submit", start_job, Start, StartedJob, status=201),
    Operation("GET", "/start", "read", get_start, StartPlace, Shown),
    Operation("GET", "/agents/{agent}", "read", show_agent, OfAgent, Shown),
    Operation("GET", "/agents/{agent}/journal", "read", show_journal, JournalPart, Shown),
    Operation("GET", "/agents/{agent}/mail", "read", show_mail, OfAgent, Shown),
    Operation("GET", "/agents/{agent}/entry/{number}", "read", show_entry, OneEntry, Shown),
    Operation("GET", "/agents/{agent}/output/{key}", "read", show_output, OneOutput, Shown),
    Operation("GET", "/jobs/{job}/panel/{panel}", "read", show_panel, OfPanel, Shown),
    Operation("POST", "/jobs/{job}/panel/{panel}/{act}", "send", do_in_panel, ActOfPanel, Shown),
)
MOUNTED = [one for one in (*OWN, *ACTS, *READS, *MAP_OPERATIONS) if one.name not in LEFT_OUT]
"""Whoever may act in the page may do all of them: the scopes are those of keys."""
