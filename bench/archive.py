"""Memory of Redis for each kept job, before and after the archive, and what a list costs beside many of them."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from bench.lives import submit
from bench.measure import Report
from bench.served import serve
from swarm.core.ids import new_job_id, root_agent_id
from swarm.replay.importer import freeze, import_past
from swarm.replay.past import Past, read_past
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import count_commands

TURNS = 20
LISTED = 100_000
STEADY = 6
MOST_BYTES = 1_024


def run(report: Report, chosen: Namespace) -> None:
    """The jobs are copies of one that ran."""
    with serve() as url, closing(Fleet()) as fleet:
        worker = fleet.start_worker(1)
        job = submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}")
        assert job.wait(300).turns == TURNS
        worker.kill()
        store, folder = fleet.swarm.store, fleet.settings.state_folder() / "objects"
        past = read_past(store, job.id)
        alone = _cost(store, lambda: fleet.swarm.jobs(20, state="running"))
        before = _used_memory(store)
        ids = [_copy(store, past) for _ in range(chosen.jobs)]
        full = (_used_memory(store) - before) / len(ids)
        for job_id in ids:
            assert store.archive.take_in(job_id)
        left = (_used_memory(store) - before) / len(ids)
        report.note(f"{len(ids):,} jobs of {TURNS} turns: {full:,.0f} bytes each in Redis")
        report.figure("archived job", left, " bytes", target=MOST_BYTES)
        report.note(
            f"{sum(file.stat().st_size for file in folder.glob('*/*')) / len(ids):,.0f} bytes each in the store"
        )
        _list_many(store, ids[0])
        many = _cost(store, lambda: fleet.swarm.jobs(20, state="running"))
        report.note(f"`jobs --state running`: {alone} commands beside one job, {many} beside {LISTED:,}")
        report.figure("list of open jobs", many / alone, "×", target=1.2)


def _copy(store: Store, past: Past) -> str:
    """Plant a copy of a job of one agent; returns its id."""
    [agent], job_id = past.agents.values(), new_job_id()
    root = root_agent_id(job_id)
    fields = {**agent.fields, "job": job_id, "spec": agent.fields["spec"].replace(agent.id, root)}
    copy = Past(
        job_id,
        {**past.fields, "root": root},
        past.documents,
        {root: replace(agent, id=root, fields=fields)},
        past.events,
    )
    import_past(store, freeze(copy), names={"root": root})
    while store.jobs.settle(job_id)[0]:
        pass
    return job_id


def _list_many(store: Store, job_id: str) -> None:
    """Keep so many jobs that a list which looked at all of them would be seen."""
    client, key = store.keyspace.client, store.keyspace.key
    record, numbers = client.hgetall(key("job", job_id)), range(LISTED)
    for first in range(0, LISTED, 1_000):
        pipeline = client.pipeline(transaction=False)
        for number in numbers[first : first + 1_000]:
            copy, created = f"job-{number:016x}", 1_000_000 + number
            pipeline.hset(key("job", copy), mapping={**record, "created": created})
            pipeline.zadd(key("jobs"), {copy: created})
            pipeline.zadd(key("jobs", record["state"]), {copy: created})
        pipeline.execute()


def _used_memory(store: Store) -> int:
    """The memory once Redis has freed what is removed, and shrunk its own tables."""
    found: list[int] = []
    while len(found) < STEADY or found[-1] < found[-STEADY]:
        time.sleep(0.5)
        found.append(int(store.keyspace.client.info("memory")["used_memory"]))
    return found[-1]


def _cost(store: Store, act: Callable[[], object]) -> int:
    """The commands that Redis carries out for `act`, those inside of steps included."""
    act()
    return count_commands(store, act)
