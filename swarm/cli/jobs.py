"""`swarm jobs`, `tree`, `events` and `cancel`: look at jobs, and end them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer

from swarm.cli.completion import complete_agent
from swarm.cli.event_lines import describe_event
from swarm.cli.lookup import find_agent, find_job, open_swarm
from swarm.cli.messages import hint_at_unread
from swarm.cli.options import JobArgument, JsonOption, parse_duration
from swarm.cli.output import (
    one_line,
    output_console,
    plain,
    print_json,
    print_json_text,
    print_line,
    print_note,
    show_ago,
    show_cost,
    show_count,
    show_duration,
)
from swarm.cli.patience import SilenceWatch, describe_waiting
from swarm.cli.questions import count_open, hint_at_questions
from swarm.cli.tables import Column, Listing
from swarm.cli.tree_view import render_tree
from swarm.client.event_feed import EventFeed
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import AgentView, EndState, JobView, ListedState
from swarm.streaming.live.reader import LiveReader

WANTED = ("running", "asking", *get_args(EndState))
_SAME_MOMENT_SECONDS = 0.05


@dataclass(frozen=True)
class JobFilter:
    """Filter for a list of jobs; an empty one matches every job."""

    states: tuple[str, ...] = ()
    """Match any of these states; `asking` matches a job with an open question."""
    since_seconds: float | None = None
    """Maximum age since submission, in seconds."""
    text: str = ""
    """Words of the title, workspace or id, in any case."""

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in WANTED:
                raise ConfigurationError(f"no job is {state!r}; the states are {', '.join(WANTED)}")

    def find(self, swarm: Swarm, count: int, asking: Counter[str]) -> list[JobView]:
        """Find the newest matching jobs, at most `count`."""
        since = 0.0 if self.since_seconds is None else time.time() - self.since_seconds
        states = [state for state in get_args(ListedState) if state in self.states] if self.states else [None]
        found = [view for state in states for view in swarm.jobs(count, state=state, since=since, text=self.text)]
        if "asking" in self.states:
            asks = swarm.store.jobs.views(list(asking))
            found += [view for view in asks if view.created_at >= since and view.mentions(self.text)]
        newest = sorted({view.id: view for view in found}.values(), key=lambda view: (view.created_at, view.id))
        return newest[::-1][:count]


def list_jobs(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of jobs, newest first.")] = 20,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", metavar="STATE", help=f"Only {', '.join(WANTED)}; may be repeated."),
    ] = None,
    since: Annotated[
        float | None, typer.Option(parser=parse_duration, metavar="TIME", help="Maximum age: 90s, 10m, 2h, 3d.")
    ] = None,
    text: Annotated[
        str, typer.Option("--grep", "-g", metavar="TEXT", help="Words of the title, workspace or id.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the newest jobs, optionally by state, age or words."""
    wanted = JobFilter(tuple(state or ()), since, text)
    with open_swarm() as swarm:
        asking = count_open(swarm)
        views = wanted.find(swarm, count, asking)
    if as_json:
        left_out = {"id", "limits", "text"}
        told = [{"job_id": view.id, **view.model_dump(exclude=left_out)} for view in views]
        print_json([{**one, "questions": asking[one["job_id"]]} for one in told])
        return
    table_of_jobs(asking, time.time()).show(views)
    for view in views:
        hint_at_unread(view.id, view.unread)
        hint_at_questions(view.id, asking[view.id])
    if not views and wanted != JobFilter():
        print_note("no job matches; `swarm jobs` lists all")
    elif not views:
        print_note("there is no job yet; start one with `swarm run PROMPT`")


def table_of_jobs(asking: Counter[str], now: float) -> Listing[JobView]:
    """A table with one row per job."""
    return Listing[JobView](
        Column("job", lambda view: view.id),
        Column("state", lambda view: show_state(view) + (" (asks)" if asking[view.id] else "")),
        Column("started", lambda view: show_ago(now - view.created_at), drop=1),
        Column("time", lambda view: show_duration((view.ended_at or now) - view.created_at), right=True, drop=4),
        Column("agents", lambda view: view.agents, right=True, drop=3),
        Column("tokens", lambda view: show_count(view.usage.total_tokens), right=True, drop=5),
        Column(
            "cost",
            lambda view: "rehearsed" if view.rehearsed else show_cost(view.cost_usd, view.unpriced_tokens),
            right=True,
            drop=2,
        ),
        Column("title", lambda view: one_line(view.title), flexible=True),
    )


def show_state(view: JobView) -> str:
    """A job's state in words, with the limit that it ended at."""
    return "limit: " + view.stopped_at if view.stopped_at else view.state.replace("_", " ")


def show_tree(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show a job's agents as a tree."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        view, asking = found.view(), count_open(swarm)[found.id]
        if as_json:
            print_json(describe_job(view, found.agents()))
            return
        agents = LiveReader(swarm.store).agents_of(found.id)
    console = output_console()
    rehearsed = " (rehearsed: it cost nothing)" if view.rehearsed else ""
    reason = f": {one_line(view.reason, 300)}" if view.reason else ""
    files = "" if view.files == "shared" else f"  (files: {view.files})"
    console.print(f"{view.id}  {view.state.replace('_', ' ')}{reason}{rehearsed}{files}", soft_wrap=True)
    if view.digest:
        console.print(plain(view.digest), soft_wrap=True, style="dim", markup=False)
    console.print(render_tree(agents, console, show_ids=True))
    hint_at_questions(view.id, asking)


def describe_job(view: JobView, agents: Sequence[AgentView]) -> dict[str, Any]:
    """Describe a job and its agents as one JSON document; its field names are part of the interface."""
    return {
        "job_id": view.id,
        "result": view.text,
        **view.model_dump(exclude={"id", "root_id", "text"}),
        "agents": [{"agent_id": agent.id, **agent.model_dump(exclude={"job_id"})} for agent in agents],
    }


def show_events(
    job: JobArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the job ends.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a job's events, one line or JSON object for each.

    The objects have the schema of `swarm run --json --stream`, described in docs/reference/stream.md.
    """
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        notifier, silence = EventFeed(swarm, found), SilenceWatch()
        for event in found.follow(idle_seconds=1.0 if follow else _SAME_MOMENT_SECONDS):
            for told in [] if event is None else notifier.tell(event):
                line = told.model_dump_json() if as_json else describe_event(told)
                if line:
                    (print_json_text if as_json else print_line)(line)
                    silence.break_off()
            if event is None and not follow:
                break
            if event is None and silence.is_long():
                print_note(describe_waiting(LiveReader(swarm.store).agents_of(found.id)))


def cancel(
    target: Annotated[
        str,
        typer.Argument(metavar="ID", help="A job or an agent: its id or a prefix.", autocompletion=complete_agent),
    ],
    reason: Annotated[str, typer.Option(help="Reason to record.")] = "cancelled by a person",
) -> None:
    """Cancel a job, or an agent and everything below it; ended agents are not changed."""
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        before = swarm.agent(agent_id)
        swarm.cancel(agent_id, reason)
        after = swarm.agent(agent_id)
        name = before.job_id if before.parent_id is None else agent_id
        ended_before = before.ended_at is not None
        state = after.state.replace("_", " ")
        print_line(f"{name} had already ended: {state}" if ended_before else f"{name} {state}")
