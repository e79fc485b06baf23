"""Choose ended jobs, by name or by age and state, for the commands that move or remove them."""

from __future__ import annotations

import time
from typing import Annotated, get_args

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job
from swarm.cli.options import parse_duration
from swarm.cli.output import print_json, print_line, print_note, show_number
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, JobOpen
from swarm.core.records import EndState, JobView
from swarm.store.forgetting import Forgetting

JobsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]…", help="Ids or prefixes.", autocompletion=complete_job)
]
OlderThanOption = Annotated[
    float | None,
    typer.Option(parser=parse_duration, metavar="TIME", help="All that ended longer ago: 12h, 30d."),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", "-s", metavar="STATE", help=f"All that are {', '.join(get_args(EndState))}."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only name the jobs.")]


def check_choice(jobs: list[str] | None, older_than: float | None, state: list[str] | None, *, others: bool) -> None:
    """Raise `ConfigurationError` unless jobs are named, or filtered, or `others` are meant."""
    if bool(jobs) == (older_than is not None or bool(state)) and not others:
        raise ConfigurationError("name jobs, or all of some age or state with --older-than and --state")
    for each in state or ():
        if each not in get_args(EndState):
            raise ConfigurationError(f"no ended job is {each!r}; the states are {', '.join(get_args(EndState))}")


def choose_ended(
    swarm: Swarm, jobs: list[str] | None, older_than: float | None, state: list[str] | None
) -> list[JobView]:
    """The rows of the chosen jobs. Raises `JobOpen` if one of those named has not ended."""
    # Before anything happens: a list with an open job is likely to be wrong in more places.
    chosen = swarm.store.jobs.views(list({find_job(swarm, text, archived=True).id: None for text in jobs or ()}))
    for view in chosen:
        if not view.ended:
            raise JobOpen(view.id)
    if older_than is not None or state:
        forgetting = Forgetting(swarm.store.keyspace)
        chosen += forgetting.find(state or (), time.time() - (older_than or 0))  # type: ignore[arg-type]
    return chosen


def print_chosen(chosen: list[JobView], done: str, *, dry_run: bool, as_json: bool) -> None:
    """Print the jobs and their number; `done` is the participle of what happened to them."""
    if as_json:
        print_json([{"job_id": view.id, "state": view.state, "ended_at": view.ended_at} for view in chosen])
        return
    for view in chosen:
        print_line(view.id)
    print_note(f"{show_number(len(chosen), 'job')} {'would be ' if dry_run else ''}{done}")
