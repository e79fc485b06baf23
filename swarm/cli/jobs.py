"""`swarm jobs`, `tree`, `events` and `cancel`: looking at jobs, and ending them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from swarm.cli.messages import hint_at_unread
from swarm.cli.opening import find_agent, find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption
from swarm.cli.output import (
    new_table,
    one_line,
    output_console,
    print_json,
    print_line,
    print_note,
    show_cost,
    show_count,
    show_duration,
)
from swarm.cli.questions import count_open, hint_at_questions
from swarm.cli.tree_view import render_tree
from swarm.records import AgentView, Event, JobView

_SAME_MOMENT_SECONDS = 0.05


def list_jobs(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many, the newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest jobs."""
    with open_swarm() as swarm:
        views, asking = swarm.jobs(count), count_open(swarm)
    if as_json:
        left_out = {"id", "limits", "text"}
        told = [{"job_id": view.id, **view.model_dump(exclude=left_out)} for view in views]
        print_json([{**one, "questions": asking[one["job_id"]]} for one in told])
        return
    if not views:
        print_note("there is no job yet; start one with `swarm run PROMPT`")
        return
    table = new_table(
        "job",
        "state",
        "age",
        "time",
        "agents",
        "tokens",
        "cost",
        "title",
        numbers=("age", "time", "agents", "tokens", "cost"),
    )
    now = time.time()
    for view in views:
        table.add_row(
            view.id,
            view.state.replace("_", " ") + (" (asks)" if asking[view.id] else ""),
            show_duration(now - view.created_at),
            show_duration((view.ended_at or now) - view.created_at),
            str(view.agents),
            show_count(view.usage.total_tokens),
            show_cost(view.cost_usd),
            one_line(view.title),
        )
    output_console().print(table)
    for view in views:
        hint_at_unread(view.id, view.unread)
        hint_at_questions(view.id, asking[view.id])


def show_tree(
    job: JobArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Show a job's agents as a tree."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        view, agents, asking = found.view(), found.agents(), count_open(swarm)[found.id]
    if as_json:
        print_json(describe_job(view, agents))
        return
    console = output_console()
    console.print(
        f"{view.id}  {view.state.replace('_', ' ')}{f': {one_line(view.reason, 300)}' if view.reason else ''}"
    )
    console.print(render_tree(agents, console, show_ids=True))
    hint_at_questions(view.id, asking)


def describe_job(view: JobView, agents: Sequence[AgentView]) -> dict[str, Any]:
    """A job and its agents as one JSON document; the field names are part of the command's interface."""
    return {
        "job_id": view.id,
        "result": view.text,
        **view.model_dump(exclude={"id", "root_id", "text"}),
        "agents": [agent.model_dump(exclude={"job_id"}) for agent in agents],
    }


def show_events(
    job: JobArgument = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what has happened in a job: one line, or one JSON object, for each event."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        for event in found.follow(idle_seconds=1.0 if follow else _SAME_MOMENT_SECONDS):
            if event is not None:
                _print_event(event, as_json=as_json)
            elif not follow:
                break


def _print_event(event: Event, *, as_json: bool) -> None:
    if as_json:
        print_json(event.model_dump(), indent=None)
        return
    fields = " ".join(
        f"{name}={one_line(value, 200)!r}" if " " in value else f"{name}={one_line(value)}"
        for name, value in event.fields.items()
        if value
    )
    moment = time.strftime("%H:%M:%S", time.localtime(event.at))
    print_line(f"{moment}.{int(event.at * 1000) % 1000:03d} {event.kind:<11} {event.agent_id} {fields}".rstrip())


def cancel(
    target: Annotated[str, typer.Argument(metavar="ID", help="A job or an agent: its id or the beginning of it.")],
    reason: Annotated[str, typer.Option(help="What is noted as the reason.")] = "cancelled by a person",
) -> None:
    """Cancel a job, or an agent and everything below it; what has ended stays as it is."""
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        before = swarm.agent(agent_id)
        swarm.cancel(agent_id, reason)
        after = swarm.agent(agent_id)
        name = before.job_id if before.parent_id is None else agent_id
        ended_before = before.ended_at is not None
        state = after.state.replace("_", " ")
        print_line(f"{name} had already ended: {state}" if ended_before else f"{name} {state}")
