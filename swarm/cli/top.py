"""`swarm top`: the fleet on the whole screen."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job, open_swarm
from swarm.core.errors import ConfigurationError


def top(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Begin with this job; @last is the newest.", autocompletion=complete_job),
    ] = None,
    notices: Annotated[
        bool,
        typer.Option(
            "--notices/--no-notices",
            help="Ring, and show on the desktop where the terminal can, that an agent asks or a job has ended.",
        ),
    ] = True,
) -> None:
    """Show the fleet on the whole screen: jobs, their agents, their lives; read, answer, write, cancel.

    Enter goes in, Escape back, n is the next question, m a message, c cancels once you have read how much, / filters, q leaves; what
    runs goes on.
    """
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError("it needs a terminal; `swarm jobs` and `swarm tree` print the same")
    with open_swarm() as swarm:
        found = None if job is None else find_job(swarm, job).id
        # Textual is loaded by this command alone, and only once it is to be seen.
        from swarm.cli.screens.app import Top

        Top(swarm, found, notices=notices).run()
