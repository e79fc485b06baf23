"""Deliveries that come often, late and in any order, while server, workers and Redis are killed: each event starts one job.

Tests of swarm/api/hooks.py, swarm/capabilities/triggers/store.py, swarm/client/triggers.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from swarm.capabilities.triggers.model import firing_key, read_trigger
from swarm.capabilities.triggers.store import Triggers
from swarm.client.triggers import put_trigger
from swarm.core.ids import job_id_for
from tests.api_server import ApiServer
from tests.fleet import Fleet
from tests.trigger_world import sign
from tests.waiting import wait_for

SECRET = "s3cret"
SCENARIO = "name: storm\nrules:\n  - reply: {text: done}\n"
TRIGGER = """---
name: storm
webhook: hmac
secret: STORM_SECRET
per-hour: 1000000
isolation: none
base_url: {url}
---
Do it.
"""


def deliver(url: str, number: int, until: float) -> int:
    """Send an event as forges do: again until the server has it. Returns the number of tries."""
    body = json.dumps({"number": number}).encode()
    headers = {
        "x-signature-256": "sha256=" + sign(SECRET, body),
        "x-event-id": f"e-{number}",
    }
    tries = 0
    while time.monotonic() < until:
        tries += 1
        try:
            if httpx.post(f"{url}/hooks/storm", content=body, headers=headers, timeout=15).status_code in (200, 202):
                return tries
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"event {number} was not taken in")


def play(fleet: Fleet, count: int, *, seconds: float) -> None:
    model, chance = fleet.rehearse(SCENARIO), random.Random(7)
    for worker in [fleet.begin_worker(3) for _ in range(2)]:
        worker.wait_ready()
    put_trigger(fleet.swarm, read_trigger(TRIGGER.format(url=model.url), "storm"), "ann", folder=fleet.workspace)
    server, until = ApiServer(fleet, STORM_SECRET=SECRET), time.monotonic() + seconds
    # Each event comes one to three times, in any order.
    sent = [number for number in range(count) for _ in range(chance.randint(1, 3))]
    chance.shuffle(sent)
    taken = threading.Semaphore(0)

    def send(number: int) -> None:
        deliver(server.url, number, until)
        taken.release()

    with ThreadPoolExecutor(8) as senders:
        found = [senders.submit(send, number) for number in sent]
        for blow in ("server", "worker", "redis"):
            for _ in range(len(sent) // 4):
                assert taken.acquire(timeout=seconds)
            match blow:
                case "server":
                    server.kill()
                    server.start()
                case "worker":
                    fleet.workers[0].kill()
                    fleet.begin_worker(3).wait_ready()
                case "redis":
                    os.kill(int(fleet.swarm.store.keyspace.client.info("server")["process_id"]), signal.SIGKILL)
                    fleet.restart_redis()
        for one in found:
            one.result()
    server.kill()
    jobs = {job_id_for(firing_key("storm", f"e-{number}")) for number in range(count)}
    store = fleet.swarm.store
    wait_for(
        "all jobs have ended",
        lambda: all(store.jobs.exists(job) and fleet.swarm.job(job).view().ended for job in sorted(jobs)),
        until - time.monotonic(),
    )
    there = {one.id for one in fleet.swarm.jobs(count + 10)}
    assert there == jobs, "one job for each event, and no other"
    assert {fleet.swarm.job(job).view().state for job in jobs} == {"completed"}
    firings = Triggers(store.keyspace).firings("storm", 1_000)
    wait_for(
        "all events are settled",
        lambda: {one.state for one in Triggers(store.keyspace).firings("storm", 1_000)} == {"started"},
        150,
    )
    assert len(firings) == min(count, 1_000)


@pytest.mark.long
def test_each_event_starts_one_job_whoever_dies(fleet: Fleet) -> None:
    play(fleet, 24, seconds=110)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_ten_thousand_events(fleet: Fleet) -> None:
    play(fleet, 10_000, seconds=7_000)
