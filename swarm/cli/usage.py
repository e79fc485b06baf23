"""`swarm usage`: show the bytes of the swarm, by kind and by job."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line
from swarm.cli.tables import Column, Listing
from swarm.store.usage import Held, Holder, UsageStore

_WORDS = {
    "journals": "journals",
    "mail": "messages",
    "outputs": "kept outputs in Redis",
    "shared": "boards, pads and pages",
    "records": "records of jobs and agents",
    "index": "lists of jobs, events and workers",
    "other": "shared texts, memories, the queue, Redis itself",
    "objects": "kept outputs outside of Redis",
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
        usage = UsageStore(swarm.store.keyspace)
        if job is not None:
            found = usage.job(find_job(swarm, job).id)
            held, rows = asdict(found.held), _largest(usage.agents(found.id), limit)
        else:
            summed: list[Held] = [Held()]
            rows = _largest(_summing(usage.jobs(), summed), limit)
            (used, most), index = usage.redis(), usage.index()
            other = max(0, used - summed[0].in_redis - index)
            held = {**asdict(summed[0]), "index": index, "other": other}
        full = swarm.store.fleet.full()
    if as_json:
        top = {} if job is not None else {"redis": {"used": used, "most": most, "full": full}}
        print_json({**top, "held": held, "agents" if job is not None else "jobs": [_describe(row) for row in rows]})
        return
    if job is None:
        print_line(f"Redis uses {_mib(used)} of {_mib(most) if most else 'unlimited'} MiB")
        if full:
            print_line(full)
    Listing[str](
        Column("kind", lambda kind: kind),
        Column("MiB", lambda kind: _mib(held[kind]), right=True),
        Column("what", lambda kind: _WORDS[kind], drop=1),
    ).show([kind for kind in _WORDS if kind in held])
    print_line()
    Listing[Holder](
        Column("job" if job is None else "agent", lambda row: row.id),
        Column("state", lambda row: row.state, drop=2),
        Column("MiB", lambda row: _mib(row.held.total), right=True),
        *(_column(kind) for kind in ("journals", "mail", "outputs", "objects", "shared", "records")),
        Column("title" if job is None else "name", lambda row: row.name, drop=1, flexible=True),
    ).show(rows)


def _column(kind: str) -> Column[Holder]:
    return Column(kind, lambda row: _mib(getattr(row.held, kind)), right=True, drop=3)


def _largest(rows: Iterable[Holder], limit: int) -> list[Holder]:
    return heapq.nlargest(limit, rows, key=lambda row: row.held.total)


def _summing(rows: Iterable[Holder], summed: list[Held]) -> Iterable[Holder]:
    for row in rows:
        summed[0] += row.held
        yield row


def _describe(row: Holder) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "state": row.state, **asdict(row.held), "total": row.held.total}


def _mib(size: int) -> str:
    return f"{size / 2**20:,.2f}"
