"""Gather what a finished job left behind, for `verify.check`: journals, sums, effects, keys, processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil

from swarm import Job
from swarm.agent.entries import Entry, decode_entry
from swarm.store.agents import Store
from tests.chaos.verify import Evidence
from tests.fleet import Fleet

_SUMS = ("turns", "input", "output", "cache_write", "cache_read", "cost")


def collect(fleet: Fleet, job: Job) -> Evidence:
    """The evidence of one job; the fleet still runs, the job does not."""
    store = fleet.swarm.store
    record = store.job(job.id)
    agents = [agent.id for agent in store.agents_of(job.id)]
    log = fleet.workspace / "effects.log"
    return Evidence(
        root_id=record.root_id,
        agents=agents,
        journals={agent_id: read_journal(store, agent_id) for agent_id in agents},
        sums={"agents": record.agents, **{name: getattr(record.sums, name) for name in _SUMS}},
        effects=log.read_text().splitlines() if log.exists() else (),
        keys=leftover_keys(store, job.id),
    )


def read_journal(store: Store, agent_id: str) -> list[tuple[str, Entry]]:
    """Every entry with its own id, however odd: nothing is refused here that the check should see."""
    rows = store.client.xrange(store.key("journal", agent_id))
    return [(entry_id, decode_entry(f["e"], agent_id=agent_id, number=n)) for n, (entry_id, f) in enumerate(rows, 1)]


def leftover_keys(store: Store, job_id: str) -> dict[str, int]:
    """The size of each key that must be empty once the only job is over."""
    client, key = store.client, store.key
    sizes = {name: int(client.zcard(key(name))) for name in ("leases", "ready", "timers", "deadlines")}
    sizes["running"] = int(client.scard(key("job", job_id, "running")))
    sizes["capped"] = int(client.zcard(key("job", job_id, "line")))
    sizes["await sets"] = sum(1 for _ in client.scan_iter(key("await", "*"), count=1000))
    record = store.job(job_id)
    return sizes | {"reserved_tokens": record.reserved_tokens, "reserved_cost": record.reserved_cost}


def processes_in(folder: Path) -> list[psutil.Process]:
    """The living processes that work in this folder: a fleet's Redis, workers, pools and shells all do."""
    found = []
    for process in psutil.process_iter():
        try:
            # A folder that was removed meanwhile still begins the path that the system reports.
            if process.cwd().startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def describe(processes: Sequence[psutil.Process]) -> list[str]:
    """The processes as a message may name them."""
    lines = []
    for process in processes:
        try:
            lines.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return lines
