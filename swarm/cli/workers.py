"""`swarm workers` and `swarm drain`: list the fleet for operators, and drain a host."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import typer

from swarm.agent.needs import ANY_MODEL, Has
from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, print_note, show_duration, show_number
from swarm.cli.patience import said
from swarm.cli.tables import Column, Listing
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError

_LOOK_SECONDS = 0.5


def list_workers(as_json: JsonOption = False) -> None:
    """List the fleet's workers: hosts, processes, busy ones, versions, keys, and offers."""
    with open_swarm() as swarm:
        fleet, busy, drained = swarm.fleet(), swarm.store.leases.busy(), swarm.store.fleet.drained()
    if as_json:
        print_json([_describe(worker, has, busy.get(worker, 0)) for worker, has in fleet.items()])
        return
    Listing[tuple[str, Has]](
        Column("worker", lambda row: row[0]),
        Column("in Celery", lambda row: row[1].node, drop=2),
        Column("busy", lambda row: f"{busy.get(row[0], 0)}/{row[1].processes or ''}".rstrip("/"), right=True),
        Column("state", lambda row: _state(row[1])),
        Column("version", lambda row: row[1].version, drop=2),
        Column("format", lambda row: row[1].format, right=True, drop=3),
        Column(
            "up", lambda row: show_duration(time.time() - at) if (at := row[1].started_at) else "", right=True, drop=3
        ),
        Column("offers", lambda row: ", ".join(row[1].special), drop=1, flexible=True),
        otherwise="there are no workers; `swarm worker` starts one, `swarm up` the local stack",
    ).show(fleet.items())
    if fleet:
        hosts = len({has.host for has in fleet.values()})
        used, processes = sum(busy.values()), sum(has.processes for has in fleet.values())
        print_line(
            f"{show_number(len(fleet), 'worker')} on {show_number(hosts, 'host')}: {used} of {processes} processes busy"
        )
        if len(versions := Counter(has.version for has in fleet.values())) > 1:
            print_note(f"note: several versions are running: {', '.join(sorted(versions))}; see `swarm upgrade`")
    for host, sick in {has.host: has.sick for has in fleet.values() if has.sick}.items():
        print_note(f"{host} takes no agents: {sick}")
    if drained:
        print_note(f"drained: {', '.join(sorted(drained))}; `swarm drain HOST --undo` ends that")


def drain(
    target: Annotated[
        str,
        typer.Argument(metavar="HOST", help="A host or a worker, as named by `swarm workers`, Celery or Flower."),
    ],
    undo: Annotated[bool, typer.Option("--undo", help="Let it take agents again.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when nothing runs there any more.")] = True,
) -> None:
    """Drain a host: its workers take no agents, and hand over running ones at the end of their turn.

    Its workers keep running. A worker started there later is drained as well, until --undo.
    """
    with open_swarm() as swarm:
        concerned = _concerned(swarm, target)
        if not concerned and target not in swarm.store.fleet.drained():
            known = ", ".join(sorted({has.host for has in swarm.fleet().values()})) or "none"
            raise ConfigurationError(
                f"no worker is on {target!r}; hosts with workers: {known}. `swarm workers` lists them"
            )
        swarm.store.fleet.drain(target, not undo)
        if undo:
            print_note(f"{target} takes agents again")
            return
        if not wait:
            print_note(f"{target} takes no more agents; `swarm workers` shows what still runs there")
            return
        with said(f"waiting until the agents on {target} have been handed over"):
            while any(not has.draining for has in _concerned(swarm, target).values()) or _busy(swarm, target):
                time.sleep(_LOOK_SECONDS)
        print_note(f"nothing runs on {target}; it takes no agents until `swarm drain {target} --undo`")


def _concerned(swarm: Swarm, target: str) -> dict[str, Has]:
    return {worker: has for worker, has in swarm.fleet().items() if target in (has.host, worker, has.node)}


def _busy(swarm: Swarm, target: str) -> int:
    busy = swarm.store.leases.busy()
    return sum(busy.get(worker, 0) for worker in _concerned(swarm, target))


def _state(has: Has) -> str:
    if has.sick:
        return "sick"
    if has.draining:
        return "draining"
    if ANY_MODEL in has.lacks:
        return "no key"
    if has.only_job is not None:
        return f"for {has.only_job}" if has.only_job else "kept"
    return f"not for {', '.join(has.lacks)}" if has.lacks else "ready"


def _describe(worker: str, has: Has, busy: int) -> dict[str, Any]:
    key = {"has_key": ANY_MODEL not in has.lacks, "state": _state(has), "busy": busy}
    return {"worker": worker, **has.model_dump(mode="json"), "format": has.format, **key}
