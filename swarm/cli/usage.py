"""`swarm usage`: show the bytes of the swarm, by kind and by job."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line
from swarm.cli.tables import Column, Listing
from swarm.store.usage import Holding, UsageStore

_WORDS = {
    "journals": "journals",
    "mail": "messages",
    "outputs": "kept outputs in Redis",
    "shared": "boards, pads and pages",
    "records": "records of jobs and agents",
    "index": "lists of jobs, events and workers",
    "other": "shared texts, memories, the queue, Redis itself",
    "objects": "kept outputs and archived jobs, outside of Redis",
}


def show_usage(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Only this job, and its agents.", autocompletion=complete_job),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Rows at most.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show how much the swarm stores, by kind and by job, largest first."""
    with open_swarm() as swarm:
        found = None if job is None else find_job(swarm, job).id
        stored = UsageStore(swarm.store.keyspace).measure(found, limit, swarm.store.fleet.full())
    if as_json:
        print_json(stored.model_dump(exclude_none=True))
        return
    if stored.redis is not None:
        most = _mib(stored.redis.most) if stored.redis.most else "unlimited"
        print_line(f"Redis uses {_mib(stored.redis.used)} of {most} MiB")
        if stored.redis.full:
            print_line(stored.redis.full)
    held, rows = stored.held, (stored.jobs if stored.agents is None else stored.agents) or []
    Listing[str](
        Column("kind", lambda kind: kind),
        Column("MiB", lambda kind: _mib(held[kind]), right=True),
        Column("what", lambda kind: _WORDS[kind], drop=1),
    ).show([kind for kind in _WORDS if kind in held])
    print_line()
    Listing[Holding](
        Column("job" if job is None else "agent", lambda row: row.id),
        Column("state", lambda row: row.state, drop=2),
        Column("MiB", lambda row: _mib(row.total), right=True),
        *(_column(kind) for kind in ("journals", "mail", "outputs", "objects", "shared", "records")),
        Column("title" if job is None else "name", lambda row: row.name, drop=1, flexible=True),
    ).show(rows)


def _column(kind: str) -> Column[Holding]:
    return Column(kind, lambda row: _mib(getattr(row, kind)), right=True, drop=3)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.2f}"
