"""What `swarm run` says of a Redis that is away while it waits, and of one that has lost the job.

Tests of swarm/cli/display.py.
"""

from __future__ import annotations

import subprocess

import pytest

from swarm import Job
from swarm.local.redis_server import find_redis
from tests.e2e.cli_world import World, wait_for_line
from tests.fleet import Fleet
from tests.waiting import wait_for


def _start(world: World, fleet: Fleet) -> tuple[subprocess.Popen[bytes], Job]:
    known = {job.id for job in fleet.swarm.jobs()}
    watching = world.start(
        *("run", "-w", str(world.workspace), "hi"),
        prepared=True,
        SWARM_REDIS_URL=fleet.url,
        ANTHROPIC_API_KEY="sk-ant-not-used",
    )
    found = wait_for("the job is there", lambda: [job.id for job in fleet.swarm.jobs() if job.id not in known])
    wait_for_line(watching, "started")
    return watching, fleet.swarm.job(found[0])


@pytest.mark.long
def test_commands_that_wait_for_a_hung_redis_name_their_job_and_go_on_until_it_ends_or_is_lost(
    world: World, fleet: Fleet
) -> None:
    started = [_start(world, fleet), _start(world, fleet)]
    redis = find_redis(fleet.settings)
    assert redis is not None
    redis.suspend()
    try:
        said = [str(wait_for_line(watching, "waits for Redis")) for watching, _ in started]
    finally:
        redis.resume()
    for (watching, job), lines in zip(started, said, strict=True):
        assert job.id in lines
        wait_for_line(watching, "has Redis again")
    (cancelled, job), (lost, _) = started
    job.cancel()
    assert cancelled.wait(30) == 1
    fleet.swarm.store.keyspace.client.flushall()
    _, rest = lost.communicate(timeout=30)
    assert lost.returncode == 3, "a code of its own"
    assert b"is lost" in rest
