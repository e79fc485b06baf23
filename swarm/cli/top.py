"""`swarm top`: the fleet, full screen."""

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
            help="Notify by bell and desktop of questions and ended jobs.",
        ),
    ] = True,
) -> None:
    """Show the fleet full screen: jobs, agents and transcripts; read, answer, write, cancel.

    Enter goes in, Escape back, n shows the next question, m writes a message, c cancels after a confirmation, / filters, q leaves;
    running jobs continue.
    """
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError("`swarm top` needs a terminal; `swarm jobs` and `swarm tree` print the same")
    with open_swarm() as swarm:
        found = None if job is None else find_job(swarm, job).id
        # Only this command loads Textual, and only to show the screen.
        from swarm.cli.screens.app import Top

        Top(swarm, found, notices=notices).run()
