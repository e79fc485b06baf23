"""`swarm board` and `swarm pad`: what a job's agents share, its tasks and its pages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from swarm.capabilities.team.board import TaskView
from swarm.capabilities.team.scratchpad import PageView
from swarm.cli.opening import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption
from swarm.cli.output import one_line, output_console, print_json, print_note, print_result, show_ago, show_number
from swarm.cli.tables import Column, Listing

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x"}


def show_board(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show the task board of a job: what is to be done, by whom, and what waits for what."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        tasks = found.board()
        texts = found.task_texts() if as_json else {}
    if as_json:
        print_json([{**task.model_dump(), **texts[task.number].model_dump()} for task in tasks])
    elif tasks:
        _print_tasks(tasks)
    else:
        print_note(f"the board of {found.id} is empty")


def _print_tasks(tasks: Sequence[TaskView]) -> None:
    table = Listing(
        *(Column(""), Column("task", right=True), Column("role", drop=3), Column("owner", drop=1)),
        *(Column("waits for", drop=2), Column("changed", drop=4), Column("subject", flexible=True)),
    )
    now = time.time()
    for task in tasks:
        table.add_row(
            f"[{_MARKS[task.state]}]",
            str(task.number),
            one_line(task.role or ""),
            one_line(task.owner_name or ""),
            ", ".join(map(str, task.waits_for)),
            show_ago(now - task.changed),
            one_line(task.subject, 200),
        )
    done = sum(task.state == "completed" for task in tasks)
    console = output_console()
    console.print(f"{done} of {show_number(len(tasks), 'task')} completed")
    table.print(console)


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
    if as_json:
        print_json([view.model_dump() for view in pages])
    elif pages:
        _print_pages(pages)
    else:
        print_note(f"the scratchpad of {found.id} is empty")


def _print_pages(pages: Sequence[PageView]) -> None:
    table = Listing(
        *(Column("page"), Column("bytes", right=True, drop=1), Column("version", right=True, drop=2)),
        *(Column("changed", drop=3), Column("by", drop=4)),
    )
    now = time.time()
    for view in pages:
        table.add_row(view.name, f"{view.size:,}", str(view.version), show_ago(now - view.at), one_line(view.by_name))
    table.show()
