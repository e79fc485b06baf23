"""The page's operations: every act, and its own reads, into which it folds patches."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from pydantic import Field

from swarm.client.acts import ACTS
from swarm.client.failures import BadRequest, NotThere
from swarm.client.operations import AgentId, Invocation, JobId, Table
from swarm.client.reads import READS
from swarm.web import reads, transcripts
from swarm.web.panels import PANELS, Panel, PanelRequest
from swarm.web.patches import WatchedParts
from swarm.web.stream import LIVE, EventStream, StreamPlace, follow

OWN = Table()
LEFT_OUT: dict[str, str] = {
    **{
        one.name: "a snapshot or a page has it; a read that waits would block the page's threads"
        for one in READS
        if one.name != "get_usage"
    },
    **dict.fromkeys(("start_map", "retry_map", "cancel_map"), "the page shows no maps"),
}
"""Operations that the page does not mount, and why."""


class TabPlace(StreamPlace):
    """Content and cursors of a tab's stream."""

    job: str | None = None  # type: ignore[assignment]
    jobs: bool = False
    feed: str = Field(default="", pattern=r"^([0-9]{1,19}(-[0-9]{1,19})?)?$")


@OWN.get("/jobs")
def list_rows(call: Invocation, count: int = 50, before: str = "") -> dict[str, Any]:
    """The newest jobs, and the cursor of their changes."""
    return reads.read_jobs(call.swarm, count, before)


@OWN.get("/start")
def get_start(call: Invocation, workspace: str | None = None) -> dict[str, Any]:
    """Options for starting a job in a folder."""
    return reads.read_start(call.swarm, workspace)


@OWN.get("/stream", takes=TabPlace, returns=EventStream, headers={"Last-Event-ID": "last_event_id"}, streams=True)
def stream_tab(call: Invocation, **place: Any) -> AsyncGenerator[str, None]:
    """A tab's watched changes as server-sent events."""
    wanted = WatchedParts(jobs=place["jobs"], job_id=place["job"], agent_id=place["agent"], words=place["words"])
    if wanted == WatchedParts():
        raise BadRequest("say what to watch: jobs=1, job=ID or agent=ID")
    return follow(call, wanted, place)


@OWN.get("/agents/{agent}")
def show_agent(call: Invocation, agent: AgentId) -> dict[str, Any]:
    """An agent with its order and its answer."""
    return transcripts.read_agent(call.swarm, agent)


@OWN.get("/agents/{agent}/journal")
def show_journal(
    call: Invocation,
    agent: AgentId,
    after: int | None = None,
    before: int | None = None,
    turns: int | None = None,
    count: int = 200,
) -> dict[str, Any]:
    """A page of an agent's journal."""
    return transcripts.read_journal(call.swarm, agent, after=after, before=before, turns=turns, count=count)


@OWN.get("/agents/{agent}/mail")
def show_mail(call: Invocation, agent: AgentId) -> dict[str, Any]:
    """The last messages of an agent, and the turn in which each was read."""
    return transcripts.read_mailbox(call.swarm, agent)


@OWN.get("/agents/{agent}/entry/{number}")
def show_entry(call: Invocation, agent: AgentId, number: int) -> dict[str, Any]:
    """One entry of a journal, uncut."""
    return transcripts.read_entry(call.swarm, agent, number)


@OWN.get("/agents/{agent}/output/{key}")
def show_output(call: Invocation, agent: AgentId, key: str) -> dict[str, Any]:
    """A tool's output that was too long for the conversation."""
    return transcripts.read_output(call.swarm, agent, key)


@OWN.get("/jobs/{job}/panel/{panel}")
def show_panel(call: Invocation, job: JobId, panel: str, agent: str | None = None, **query: Any) -> dict[str, Any]:
    """A panel's data of a job, or of an agent."""
    return _read(panel, PanelRequest(call.swarm, job, agent, query, {}, call.by))


@OWN.post("/jobs/{job}/panel/{panel}/{act}", "send")
def do_in_panel(call: Invocation, job: JobId, panel: str, act: str, **body: Any) -> dict[str, Any]:
    """An act of a panel."""
    return _run(panel, act, PanelRequest(call.swarm, job, None, {}, body, call.by))


@OWN.get("/panel/{panel}")
def show_fleet_panel(call: Invocation, panel: str, **query: Any) -> dict[str, Any]:
    """A panel's data of the fleet."""
    return _read(panel, PanelRequest(call.swarm, "", None, query, {}, call.by))


@OWN.post("/panel/{panel}/{act}", "submit")
def do_in_fleet_panel(call: Invocation, panel: str, act: str, **body: Any) -> dict[str, Any]:
    """An act of a panel of the fleet."""
    return _run(panel, act, PanelRequest(call.swarm, "", None, {}, body, call.by))


def _find(panel: str, asked: PanelRequest) -> Panel | None:
    found = PANELS.get(panel)
    return found if found is not None and (found.scope == "fleet") == (not asked.job_id) else None


def _read(panel: str, asked: PanelRequest) -> dict[str, Any]:
    if (found := _find(panel, asked)) is None:
        raise NotThere(f"there is no panel {panel}")
    return {"panel": panel, "now": asked.swarm.store.now(), "data": found.read(asked)}


def _run(panel: str, act: str, asked: PanelRequest) -> dict[str, Any]:
    found = _find(panel, asked)
    if found is None or act not in found.acts:
        raise NotThere(f"the panel {panel} has no act {act}")
    return {"data": found.acts[act](asked)}


MOUNTED = [one for one in (*LIVE, *OWN, *ACTS, *READS) if one.name not in LEFT_OUT]
"""A visitor who may act in the page may do all acts: scopes are for keys only."""
