"""Waiting for the ends of many jobs: one reader for all of them, and no end is missed.

Tests of swarm/client/ends.py.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from swarm import Job
from swarm.client import aio
from tests.fleet import Fleet
from tests.waiting import wait_for


def submit(fleet: Fleet) -> Job:
    """A job that no worker takes."""
    return fleet.swarm.submit("Wait.", workspace=fleet.workspace)


def blocked(fleet: Fleet) -> int:
    return int(fleet.swarm.store.keyspace.client.info("clients")["blocked_clients"])


def commands(fleet: Fleet) -> int:
    stats = fleet.swarm.store.keyspace.client.info("commandstats")
    return sum(stats[f"cmdstat_{name}"]["calls"] for name in ("xread", "hmget"))


def test_many_waits_share_one_blocking_command_and_each_sees_its_end(fleet: Fleet) -> None:
    jobs = [submit(fleet) for _ in range(20)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        waits = [pool.submit(job.wait, 120) for job in jobs]
        wait_for("the reader blocks", lambda: blocked(fleet) == 1)
        for job, wait in zip(jobs, waits, strict=True):
            assert not wait.done()
            job.cancel()
            assert wait.result(60).state == "cancelled"
            assert blocked(fleet) <= 1
    wait_for(
        "the reader ends with its last wait",
        lambda: not any(thread.name == "swarm-ends" for thread in threading.enumerate()),
    )
    job = submit(fleet)
    job.cancel()
    assert job.wait(0).state == "cancelled"


def test_waits_of_asyncio_share_the_same_reader(fleet: Fleet) -> None:
    async def run() -> None:
        async with aio.Swarm(fleet.settings) as swarm:
            jobs = [await swarm.job(submit(fleet).id) for _ in range(20)]
            waits = [asyncio.create_task(job.wait(120)) for job in jobs]
            await asyncio.to_thread(wait_for, "the reader blocks", lambda: blocked(fleet) == 1)
            for job in jobs:
                await job.cancel()
            assert {view.state for view in await asyncio.gather(*waits)} == {"cancelled"}

    asyncio.run(run())


def test_an_end_while_redis_was_away_is_seen(fleet: Fleet) -> None:
    job, other = submit(fleet), submit(fleet)
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(job.wait, 120)
        wait_for("the reader blocks", lambda: blocked(fleet) == 1)
        client = fleet.swarm.store.keyspace.client
        # The connections break, and the job ends before the reader has a new one.
        with client.pipeline(transaction=True) as pipeline:
            pipeline.client_kill_filter(_type="normal", skipme=True)
            pipeline.execute()
        job.cancel()
        assert wait.result(60).state == "cancelled"
    other.cancel()
    assert other.wait(60).state == "cancelled"
