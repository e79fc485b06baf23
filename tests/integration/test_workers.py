"""The fleet as operators see it: who is there, with what, how busy; and a worker that is left free.

Tests of swarm/cli/workers.py, swarm/store/fleet.py.
"""

from __future__ import annotations

import json
import os
import subprocess

from swarm import Settings
from swarm.agent.needs import Has
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.waiting import wait_for

SLOW = """
name: slow
rules:
  - {when: {turn: 0}, reply: {latency_seconds: 6, tools: [{name: Bash, input: {command: "true"}}]}}
  - {when: {turn: "1+"}, reply: {text: DONE}}
"""


def swarm(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SWARM_REDIS_URL": fleet.url, "SWARM_STATE_DIR": str(fleet.folder / "s")}
    return subprocess.run([prepared_swarm(), *arguments], env=environment, capture_output=True, text=True, timeout=60)


def test_a_drained_worker_hands_its_agents_over_takes_none_and_takes_them_again(at_work: Fleet) -> None:
    fleet = at_work
    [[first, has]] = fleet.swarm.fleet().items()
    assert (has.processes, has.draining, has.provider) == (4, False, Settings().provider) and has.host and has.version
    job = fleet.submit("x", fleet.rehearse(SLOW), agent="build")
    wait_for("it is busy", lambda: fleet.swarm.store.leases.busy().get(first))
    fleet.swarm.store.fleet.drain(has.node)
    wait_for("it has handed over", lambda: fleet.swarm.fleet()[first].draining and not fleet.swarm.store.leases.busy())
    drained = swarm(fleet, "drain", "w1@test")
    assert drained.returncode == 0 and "nothing runs" in drained.stderr, drained.stderr
    assert fleet.swarm.store.leases.busy() == {} and not job.view().ended
    # Nobody else is there: what waits stays where it is.
    other = fleet.submit("y", fleet.rehearse("hello"), agent="build")
    listed = swarm(fleet, "workers")
    assert (
        "draining" in listed.stdout and "0 of 4 processes busy" in listed.stdout and "drained: w1@test" in listed.stderr
    )
    assert {agent.state for agent in [*job.agents(), *other.agents()]} == {"queued"}
    assert swarm(fleet, "drain", "w1@test", "--undo").returncode == 0
    assert job.wait(60).text == "DONE" and other.wait(60).state == "completed"
    assert job.view().turns == 2
    [shown] = json.loads(swarm(fleet, "workers", "--json").stdout)
    assert (shown["worker"], shown["busy"], shown["state"]) == (first, 0, "no key") and not shown["has_key"]
    unknown = swarm(fleet, "drain", "nowhere")
    assert unknown.returncode == 2 and "no worker is on 'nowhere'" in unknown.stderr


def test_what_older_workers_tell_of_themselves_is_read() -> None:
    assert Has.model_validate_json('{"only_job": null, "lacks": {}}').processes == 0
