"""`swarm forget`: remove ended jobs wholly."""

from __future__ import annotations

import time
from typing import Annotated, get_args

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption, parse_duration
from swarm.cli.output import print_json, print_line, print_note
from swarm.core.errors import ConfigurationError, JobOpen
from swarm.core.records import EndState
from swarm.objects import open_objects
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects


def forget(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]…", help="Ids or prefixes.", autocompletion=complete_job)
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(parser=parse_duration, metavar="TIME", help="All that ended longer ago: 12h, 30d."),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", metavar="STATE", help=f"All that are {', '.join(get_args(EndState))}."),
    ] = None,
    leftovers: Annotated[
        bool, typer.Option("--leftovers", help="Delete the objects of forgotten jobs, as workers do.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only name the jobs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove ended jobs: records, journals, outputs and objects. Results that a map has recorded stay."""
    filtered = older_than is not None or bool(state)
    if bool(jobs) == filtered and not leftovers:
        raise ConfigurationError("name jobs, or all of some age or state with --older-than and --state")
    for each in state or ():
        if each not in get_args(EndState):
            raise ConfigurationError(f"no ended job is {each!r}; the states are {', '.join(get_args(EndState))}")
    with open_swarm() as swarm:
        forgetting = Forgetting(swarm.store.keyspace)
        chosen = [find_job(swarm, text).view() for text in jobs or ()]
        # Before anything is removed: a list with an open job is likely to be wrong in more places.
        for view in chosen:
            if not view.ended:
                raise JobOpen(view.id)
        if filtered:
            chosen += forgetting.find(state or (), time.time() - (older_than or 0))  # type: ignore[arg-type]
        if not dry_run:
            for view in chosen:
                forgetting.forget(view.id)
            objects = JobObjects(swarm.store.keyspace, open_objects(swarm.settings))
            while objects.delete_orphans():
                pass
    if as_json:
        print_json([{"job_id": view.id, "state": view.state, "ended_at": view.ended_at} for view in chosen])
        return
    for view in chosen:
        print_line(view.id)
    if not leftovers:
        print_note(f"{len(chosen)} jobs {'would be forgotten' if dry_run else 'forgotten'}")
