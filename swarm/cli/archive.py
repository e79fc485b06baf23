"""`swarm archive`: move ended jobs from Redis to the store of objects."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.ended import (
    DryRunOption,
    JobsArgument,
    OlderThanOption,
    StateOption,
    check_choice,
    choose_ended,
    print_chosen,
)
from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_note
from swarm.client.swarm import Swarm
from swarm.core.errors import ObjectMissing, ObjectRefused, SwarmError, UnknownAgent
from swarm.store.archive import Archive


def archive(
    jobs: JobsArgument = None,
    older_than: OlderThanOption = None,
    state: StateOption = None,
    due: Annotated[
        bool, typer.Option("--due", help="All that are due by SWARM_ARCHIVE_SECONDS, as workers do.")
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move ended jobs from Redis to the store of objects. Commands read them there; the first to do so brings the job back for an hour."""
    check_choice(jobs, older_than, state, others=due)
    with open_swarm() as swarm:
        if due:
            _archive_due(swarm)
            return
        chosen = [view for view in choose_ended(swarm, jobs, older_than, state) if not view.archived]
        if not dry_run:
            left = [view for view in chosen if not swarm.store.archive.take_in(view.id)]
            for view in left:
                print_note(f"{view.id} is still ending, or goes on; try again later")
            chosen = [view for view in chosen if view not in left]
    print_chosen(chosen, "archived", dry_run=dry_run, as_json=as_json)


def _archive_due(swarm: Swarm) -> None:
    found, refused = swarm.store.archive, list[SwarmError]()
    try:
        while job_ids := found.take_due():
            refused += [why for job_id in job_ids if (why := _try(found, job_id)) is not None]
    except (SwarmError, OSError) as error:
        found.note_failure(str(error))
        raise
    if refused:
        found.note_failure(f"{len(refused)} refused: {refused[0]}")
        raise refused[0]


def _try(archive: Archive, job_id: str) -> SwarmError | None:
    """Archive a due job; returns the reason why the store does not take this one."""
    try:
        archive.take_in(job_id)
    except UnknownAgent:
        pass  # it has expired
    except (ObjectRefused, ObjectMissing) as error:
        return error
    return None
