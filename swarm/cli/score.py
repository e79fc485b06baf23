"""`swarm score`: score a job's work."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.capabilities.evaluations.model import PERSON
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument
from swarm.cli.output import print_note


def score(
    job: JobArgument = None,
    passed: Annotated[bool | None, typer.Option("--passed/--failed", help="Whether the work is right.")] = None,
    points: Annotated[float | None, typer.Option(min=0, max=1, metavar="0…1", help="How good it is.")] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="A note about the run.")] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the score.")] = PERSON,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the score of that name.")] = False,
) -> None:
    """Score a job's work, or write a note about it. A person's score outweighs that of an evaluation."""
    if not remove and passed is None and points is None and not note:
        raise typer.BadParameter("give --passed, --failed, --points or --note", param_hint="JOB")
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        if remove:
            found.score(name, remove=True)
        else:
            found.score(name, passed=passed, points=points, note=note)
        print_note(f"{found.id}: {', '.join(found.view().scores) or 'no scores'}")
