"""What `swarm run` says of a Redis that is away while it waits, and of one that has lost the job.

Tests of swarm/cli/display.py.
"""

from __future__ import annotations

import subprocess

from swarm.local.redis_server import find_redis
from tests.e2e.cli_world import World, wait_for_line
from tests.fleet import Fleet
from tests.waiting import wait_for


def _start(world: World, fleet: Fleet) -> subprocess.Popen[bytes]:
    watching = world.start(
        *("run", "-w", str(world.workspace), "hi"), SWARM_REDIS_URL=fleet.url, ANTHROPIC_API_KEY="sk-ant-not-used"
    )
    wait_for("the job is there", lambda: fleet.swarm.jobs())
    wait_for_line(watching, "started")
    return watching


def test_a_command_that_waits_for_a_hung_redis_names_its_job_and_goes_on(world: World, fleet: Fleet) -> None:
    watching = _start(world, fleet)
    [job] = fleet.swarm.jobs()
    redis = find_redis(fleet.settings)
    assert redis is not None
    redis.suspend()
    try:
        said = wait_for_line(watching, "waits for Redis")
    finally:
        redis.resume()
    assert job.id in str(said)
    wait_for_line(watching, "has Redis again")
    fleet.swarm.cancel(job.root_id)
    assert watching.wait(30) == 1


def test_a_job_that_redis_has_lost_ends_the_command_with_a_code_of_its_own(world: World, fleet: Fleet) -> None:
    watching = _start(world, fleet)
    fleet.swarm.store.keyspace.client.flushall()
    _, said = watching.communicate(timeout=30)
    assert watching.returncode == 3
    assert b"is lost" in said
