"""`swarm attach`: watch a running job again; leaving never ends it."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, TextIO

import typer

from swarm.cli.display import Display, watch
from swarm.cli.interrupts import Interrupts
from swarm.cli.launch import exit_code
from swarm.cli.live_editor import Left, choose_talking
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument
from swarm.cli.output import print_note
from swarm.cli.prompter import Prompter, open_terminal
from swarm.cli.run import deliver_text
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import JobLost, UnknownAgent
from swarm.core.records import JobView


def attach(
    job: JobArgument = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, only the answer.")] = False,
) -> None:
    """Watch a job as `swarm run` does, type to its agents, answer their questions, and print the final answer.

    A line goes to the first agent, `@NAME LINE` to another one. Ctrl-D or Ctrl-C leaves; the job continues.
    Exit code as `swarm run`; 0 after Ctrl-D, 130 after Ctrl-C.
    """
    with open_swarm() as swarm, contextlib.ExitStack() as cleanup:
        found = find_job(swarm, job)
        interrupts = cleanup.enter_context(Interrupts())
        waiting = swarm.outlasting(found.id)
        terminal = open_terminal(cleanup) if sys.stdin is not None and sys.stdin.isatty() else None
        raise typer.Exit(_watch(waiting, Job(waiting, found.id), interrupts, terminal, quiet=quiet))


def _watch(swarm: Swarm, job: Job, interrupts: Interrupts, terminal: TextIO | None, *, quiet: bool) -> int:
    display = choose_talking(swarm, job, terminal, quiet=quiet)
    prompter = None if terminal is None else Prompter(swarm, terminal, interrupts)
    try:
        view = watch(job, display, lambda: None, prompter)
    except UnknownAgent as error:
        raise JobLost(job.id) from error
    except (Left, KeyboardInterrupt) as left:
        display.pause()
        print_note(f"left {job.id}; it continues. Return with: swarm attach {job.id}")
        return 0 if isinstance(left, Left) else 130
    finally:
        display.pause()
    return _end(display, job, view)


def _end(display: Display, job: Job, view: JobView) -> int:
    display.close()
    deliver_text(view, job.agents())
    return exit_code(view)
