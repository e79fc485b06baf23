"""`swarm wait`: wait for jobs, for scripts; `swarm audit`: list people's actions on a job."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from swarm.cli.completion import complete_job
from swarm.cli.launch import exit_code
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption, parse_duration
from swarm.cli.output import (
    one_line,
    print_json,
    print_line,
    print_note,
    show_cost,
    show_count,
    show_moment,
    show_number,
)
from swarm.client.swarm import Job, Swarm
from swarm.core.records import JobView
from swarm.mailbox import USER

_TIMED_OUT = 124
"""Exit code after the timeout, as in `timeout`, while jobs still run."""
_SHOWN_CHARACTERS = 200


def wait_for_jobs(
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB…", help="Jobs, by id or prefix.", autocompletion=complete_job),
    ],
    timeout: Annotated[
        float | None,
        typer.Option(parser=parse_duration, metavar="TIME", help="Maximum wait.", show_default="for ever"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until all of these jobs have ended, and print their outcomes.

    Exit code: that of `swarm run` for the first that did not complete, else 0; 124 after the timeout. In GitHub Actions, the summary page
    gets a table, and each failed job an error annotation.
    """
    with open_swarm() as swarm:
        found = [find_job(swarm, job) for job in dict.fromkeys(jobs)]
        views = wait_for_all(found, timeout)
    if as_json:
        print_json([{"job_id": view.id, **view.model_dump(exclude={"id", "limits"})} for view in views])
    else:
        for view in views:
            print_line(_describe(view))
    _tell_ci(views)
    if any(not view.ended for view in views):
        raise typer.Exit(_TIMED_OUT)
    raise typer.Exit(next((code for code in map(exit_code, views) if code), 0))


def wait_for_all(jobs: Sequence[Job], timeout: float | None) -> list[JobView]:
    """Wait for all jobs to end, at most `timeout` seconds; returns their states."""
    give_up = None if timeout is None else time.monotonic() + timeout

    def wait(job: Job) -> JobView:
        try:
            return job.wait(None if give_up is None else max(0.0, give_up - time.monotonic()))
        except TimeoutError:
            return job.view()

    with ThreadPoolExecutor(min(32, len(jobs))) as pool:
        return list(pool.map(wait, jobs))


def _describe(view: JobView) -> str:
    cost = show_cost(view.cost_usd, view.unpriced_tokens, view.estimated_usd)
    spent = f"{show_number(view.agents, 'agent')}, {show_count(view.usage.total_tokens)} tokens, {cost}"
    why = f": {one_line(view.reason, _SHOWN_CHARACTERS)}" if view.reason else ""
    return f"{view.id} {view.state.replace('_', ' ')} ({spent}){why}"


def _tell_ci(views: Sequence[JobView]) -> None:
    """In GitHub Actions, write a table for people, and an annotation for each job that did not complete."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        rows = [
            f"| {view.id} | {_cell(view.title)} | {view.state} | {view.agents} | {show_cost(view.cost_usd, view.unpriced_tokens)} |"
            for view in views
        ]
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n".join(["| job | task | state | agents | cost |", "|---|---|---|---|---|", *rows, ""]))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for view in views:
            if view.state != "completed":
                # The runner reads this line as a command; a job's text must not add another one.
                print_note(f"::error title={view.id}::{one_line(_describe(view), 500).replace('%', '%25')}")


def _cell(text: str) -> str:
    return one_line(text, 80).replace("|", "\\|").replace("<", "&lt;")


def audit(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """List people's actions on a job: starts, answers, approvals, messages, cancels, and their times."""
    with open_swarm() as swarm:
        acts = list(_acts(swarm, find_job(swarm, job)))
    if as_json:
        print_json(acts)
        return
    for act in acts:
        print_line(f"{show_moment(act['at'])}  {act['by']} {act['what']}  {one_line(act['about'], _SHOWN_CHARACTERS)}")
    if not acts:
        print_note("its events have expired, and there was no action since")


def _acts(swarm: Swarm, job: Job) -> Iterator[dict[str, Any]]:
    view, names = job.view(), {agent.id: agent.called for agent in job.agents()}
    titles = {question.id: f"{question.kind}: {question.title}" for question in swarm.questions.of_job(job.id)}
    for event in job.follow(idle_seconds=0.05):
        if event is None:
            return
        about, by = dict(event.fields), str(event.fields.get("by", ""))
        who = names.get(event.agent_id, event.agent_id)
        match event.kind:
            case "job_started":
                yield _act(event, USER, "started", view.title)
            case "answered" if by:
                said = (
                    f"{about.get('state')}, {about.get('answer')}" if about.get("answer") else str(about.get("state"))
                )
                yield _act(
                    event,
                    by,
                    "answered",
                    f"{who}: {titles.get(str(about.get('question')), about.get('question'))} → {said}",
                )
            case "message" if event.agent_id == job.id:
                yield _act(event, USER, "wrote", f"to {names.get(str(about.get('to')), about.get('to'))}")
            case "ended" if by and by not in names:
                yield _act(event, by, "cancelled", f"{who}: {about.get('reason')}")


def _act(event: Any, by: str, what: str, about: str) -> dict[str, Any]:
    return {"at": event.at, "seq": event.seq, "by": by, "what": what, "about": about}
