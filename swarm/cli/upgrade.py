"""`swarm upgrade`: compare the workers' releases with this one, and say what to do in which order."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.upgrade import Upgrade, WorkerRelease, check_upgrade

_SHOWN_JOBS = 20


def show_upgrade(
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless all workers have this release.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the fleet's releases with this one, and show what to upgrade in which order.

    It changes nothing.
    """
    with open_swarm() as swarm:
        found = check_upgrade(swarm)
    if as_json:
        print_json({**found.model_dump(mode="json"), "done": found.done, "order": [one.worker for one in found.order]})
    else:
        _print(found)
    if check and not found.done:
        raise typer.Exit(1)


def _print(found: Upgrade) -> None:
    print_line(f"this is swarm {found.version}, which reads up to format {found.format}")
    Listing[WorkerRelease](
        Column("worker", lambda one: one.worker),
        Column("in Celery", lambda one: one.node, drop=1),
        Column("version", lambda one: one.version),
        Column("reads up to format", lambda one: one.format, right=True),
        Column("leaves to others", _describe_left),
        otherwise="there are no workers",
    ).show(found.workers)
    if found.order:
        print_line(f"upgrade next, one after the other: {', '.join(one.worker for one in found.order)}")
        print_line("then the clients: Flower, HTTP servers, and machines that submit jobs")
        if found.order[0].format < found.format:
            readers = sum(one.format >= found.format for one in found.workers)
            print_line(f"jobs that this release submits have format {found.format}: {_count_workers(readers)} it")
    for newer in (one for one in found.workers if one.newer):
        print_line(f"{newer.worker} has the newer release {newer.version}: upgrade this machine")
    for job_id, number in list(found.unread.items())[:_SHOWN_JOBS]:
        print_line(f"{job_id} needs format {number}, which no worker reads: start one of a newer release")
    if (more := len(found.unread) - _SHOWN_JOBS) > 0:
        print_line(f"{show_number(more, 'more job')} like these; --json has all")
    if found.done:
        print_note("nothing is to be upgraded" if found.workers else "no open job needs a newer release")


def _count_workers(count: int) -> str:
    return f"{show_number(count, 'worker')} {'reads' if count == 1 else 'read'}" if count else "no worker reads"


def _describe_left(one: WorkerRelease) -> str:
    if not one.leaves_agents:
        return "nothing"
    return f"{show_number(one.leaves_agents, 'agent')} of {show_number(one.leaves_jobs, 'job')} with newer formats"
