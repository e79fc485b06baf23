"""`swarm forget`: remove ended jobs wholly."""

from __future__ import annotations

from contextlib import suppress
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
from swarm.core.errors import UnknownAgent
from swarm.objects import open_objects
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects


def forget(
    jobs: JobsArgument = None,
    older_than: OlderThanOption = None,
    state: StateOption = None,
    leftovers: Annotated[
        bool, typer.Option("--leftovers", help="Delete the objects of forgotten jobs, as workers do.")
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove ended jobs, also archived ones: records, journals, outputs and objects. Results that a map has recorded stay."""
    check_choice(jobs, older_than, state, others=leftovers)
    with open_swarm() as swarm:
        chosen = choose_ended(swarm, jobs, older_than, state)
        if not dry_run:
            forgetting = Forgetting(swarm.store.keyspace)
            for view in chosen:
                with suppress(UnknownAgent):  # it has expired meanwhile
                    forgetting.forget(view.id)
            # A client that does not know the fleet's store leaves them to the workers.
            own = JobObjects(swarm.store.keyspace, open_objects(swarm.settings)) if leftovers else None
            objects = own or swarm.store.objects
            while objects is not None and objects.delete_orphans():
                pass
    if not leftovers:
        print_chosen(chosen, "forgotten", dry_run=dry_run, as_json=as_json)
