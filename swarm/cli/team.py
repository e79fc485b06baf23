"""`swarm board` and `swarm pad`: a job's shared tasks and pages."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.capabilities.team.board import TaskView
from swarm.capabilities.team.scratchpad import PadPage
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption
from swarm.cli.output import print_json, print_line, print_note, print_result, show_number, show_since
from swarm.cli.tables import Column, Listing

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x"}


def show_board(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show the task board of a job: tasks, owners and dependencies."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        tasks = found.board()
        texts = found.task_texts() if as_json else {}
    if as_json:
        print_json([{**task.model_dump(), **texts[task.number].model_dump()} for task in tasks])
        return
    if tasks:
        done = sum(task.state == "completed" for task in tasks)
        print_line(f"{done} of {show_number(len(tasks), 'task')} completed")
    else:
        print_note(f"the board of {found.id} is empty")
    _BOARD.show(tasks)


def show_pad(
    job: JobArgument = None,
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", help="Print this page instead of the list.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the pages of a job's scratchpad, or print one."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        if page is not None:
            view, text = found.page(page)
            if as_json:
                print_json({**view.model_dump(), "text": text})
            else:
                print_result(text)
            return
        pages = found.pad()
    if not pages and not as_json:
        print_note(f"the scratchpad of {found.id} is empty")
    _PAD.show(pages, as_json=as_json)


_BOARD = Listing[TaskView](
    Column("", lambda task: f"[{_MARKS[task.state]}]"),
    Column("task", lambda task: task.number, right=True),
    Column("role", lambda task: task.role, drop=3),
    Column("owner", lambda task: task.owner_name, drop=1),
    Column("waits for", lambda task: ", ".join(map(str, task.waits_for)), drop=2),
    Column("changed", lambda task: show_since(task.changed), drop=4),
    Column("subject", lambda task: task.subject, flexible=True),
)
_PAD = Listing[PadPage](
    Column("page", lambda page: page.name),
    Column("bytes", lambda page: f"{page.size:,}", right=True, drop=1),
    Column("version", lambda page: page.version, right=True, drop=2),
    Column("changed", lambda page: show_since(page.at), drop=3),
    Column("by", lambda page: page.by_name, drop=4),
)
