"""What a fleet lives through: deploys, Redis away, newer journals, time.

Tests of swarm/runtime/scratch.py, tasks/consumer_guard.py.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from swarm import Job
from swarm.local.redis_server import find_redis
from swarm.runtime.scratch import scratch_root
from tests.fleet import Fleet
from tests.waiting import wait_for


def test_sigquit_hands_over_at_once_even_in_the_middle_of_a_reply(fleet: Fleet) -> None:
    first = fleet.start_worker(2)
    server = fleet.rehearse(latency_seconds=8)
    job = fleet.submit("TREE depth=0 fanout=0 steps=0", server)
    root = job.view().root_id
    wait_for("the request is under way", lambda: server.stats()["in_flight"] == 1)
    first.stop(signal.SIGQUIT, 6)
    assert fleet.swarm.agent(root).state == "queued"
    fleet.start_worker(2)
    assert job.wait(30).text == "DONE 1"


_MORTAL = """
import os, signal
import psutil
from celery import signals
from tests.waiting import wait_for
TOOLS = []

@signals.worker_ready.connect
def wait_for_the_death(**_):
    main = psutil.Process()
    wait_for("one has died", lambda: any(child.status() == psutil.STATUS_ZOMBIE for child in main.children()))

@signals.worker_process_init.connect
def die_once(**_):
    try:
        os.close(os.open(os.environ["DIED_ONCE"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_while_its_worker_starts_is_replaced(fleet: Fleet) -> None:
    (fleet.folder / "mortal.py").write_text(_MORTAL)
    died = fleet.folder / "died"
    worker = fleet.start_worker(
        2, SWARM_TOOLS="mortal", PYTHONPATH=f"{fleet.folder}:{Path(__file__).parents[2]}", DIED_ONCE=str(died)
    )
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    assert died.exists() and job.wait(30).text == "DONE 1"
    wait_for("both are there", lambda: len(worker.children()) == 2)


@pytest.mark.long
def test_redis_may_be_away_for_ten_seconds_under_load(fleet: Fleet) -> None:
    fleet.start_worker(3)
    fleet.start_worker(3)
    job = fleet.submit("TREE depth=2 fanout=5 steps=6", fleet.rehearse(latency_seconds=0.2))
    wait_for("work is going on", lambda: job.view().turns > 20)
    redis = find_redis(fleet.settings)
    assert redis is not None
    redis.kill()
    redis.wait(5)
    time.sleep(10)  # the outage itself, not a wait for something
    fleet.restart_redis()
    view = job.wait(90)
    assert (view.state, view.text, view.agents) == ("completed", "DONE 31", 31)
    assert all(worker.process.poll() is None for worker in fleet.workers), "no worker died of it"


def test_losing_every_connection_costs_nothing(fleet: Fleet) -> None:
    worker = fleet.start_worker(3)
    job = fleet.submit("TREE depth=2 fanout=3 steps=4", fleet.rehearse(latency_seconds=0.1))
    for turns in (5, 15, 25):
        wait_for("work is going on", lambda turns=turns: job.view().turns > turns)  # type: ignore[misc]
        fleet.swarm.store.keyspace.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "DONE 13")
    assert worker.process.poll() is None


def test_connections_that_break_again_and_again_cost_nothing(fleet: Fleet) -> None:
    """Also those that break while the worker makes them anew, before it has used them."""
    worker = fleet.start_worker(3)
    job = fleet.submit("TREE depth=2 fanout=3 steps=4", fleet.rehearse(latency_seconds=0.1))
    wait_for("work is going on", lambda: job.view().turns > 1)
    for number in range(30):
        fleet.swarm.store.keyspace.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        time.sleep(0.03 + number % 5 * 0.03)  # the pace of the breaks, not a wait for something
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "DONE 13")
    assert worker.process.poll() is None


def test_a_journal_that_only_a_newer_worker_can_read_is_left_for_it(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    root, client = job.view().root_id, fleet.swarm.store.keyspace.client
    client.xadd(f"swarm:journal:{root}", {"e": json.dumps({"v": 2, "kind": "dreamt"})}, id="1-0")
    client.hset(f"swarm:agent:{root}", "length", 1)
    worker = fleet.start_worker(1)
    wait_for("it was refused", lambda: "journal entry 1 cannot be read" in worker.text())
    fleet.wait_state(root, "queued")
    other = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse()).wait(20)
    assert other.state == "completed"


def test_finished_jobs_expire_and_unfinished_ones_never_do(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse()
    done = fleet.submit("TREE depth=1 fanout=2 steps=1", server)
    done.wait(30)
    fleet.workers[0].stop()
    waiting = fleet.submit("TREE depth=0 fanout=0 steps=1", server)
    client = fleet.swarm.store.keyspace.client
    left = {key: client.ttl(key) for key in client.scan_iter("swarm:*")}

    def keys_of(job: Job) -> dict[str, int]:
        ids = [job.id, *(agent.id for agent in job.agents())]
        return {key: left for key, left in left.items() if any(one in key for one in ids)}

    of_done, of_waiting = keys_of(done), keys_of(waiting)
    for job, keys in ((done, of_done), (waiting, of_waiting)):
        record = {f"swarm:{kind}:{one.id}" for one in job.agents() for kind in ("agent", "journal")}
        assert {f"swarm:job:{job.id}", *record} - {f"swarm:journal:{waiting.view().root_id}"} <= keys.keys()
    assert {key for key, seconds in of_done.items() if not 0 < seconds <= 7 * 86_400} == set()
    assert {key for key, seconds in of_waiting.items() if seconds != -1} == set()


def test_a_background_shell_dies_with_its_agent(fleet: Fleet) -> None:
    marker = f"87{os.getpid()}"
    fleet.start_worker(1)
    server = fleet.rehearse(
        f"""
name: daemon
rules:
  - when: {{turn: 0}}
    reply: {{tools: [{{name: Bash, input: {{command: "sleep {marker}", run_in_background: true}}}}]}}
  - when: {{prompt: stay}}
    reply: {{text: never, latency_seconds: 60}}
  - reply: {{text: started it}}
"""
    )

    def sleepers() -> list[psutil.Process]:
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", marker]]

    gone = fleet.submit("go", server)
    assert gone.wait(30).text == "started it"
    wait_for("the worker has cleared up", lambda: not (scratch_root(fleet.settings) / gone.agents()[0].id).exists())
    assert not sleepers()

    stay = fleet.submit("stay", server)
    wait_for("it runs", sleepers)
    # Until its call has ended, the process that starts it is one of the worker's.
    wait_for("its call has ended", lambda: stay.agents()[0].tools == 1)
    [shell] = sleepers()
    fleet.workers[0].kill()
    assert shell.is_running(), "it belongs to its agent, which still lives, not to the worker"
    fleet.swarm.cancel(fleet.swarm.jobs()[0].root_id)
    fleet.start_worker(1)
    wait_for("the next worker on this host finds and ends it", lambda: not sleepers(), 25)
