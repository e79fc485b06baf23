"""Two swarms in one database of one Redis, on one host, do not see each other.

Tests of swarm/store/keyspace.py, tasks/app.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swarm import Swarm
from swarm.tasks.app import make_app
from tests.fleet import Fleet
from tests.waiting import wait_for


@pytest.fixture
def neighbours() -> Iterator[Fleet]:
    """A Redis that a worker of the swarm `swarm` uses, and one of the swarm `other`."""
    fleet = Fleet()
    try:
        fleet.start_worker(1)
        fleet.start_worker(1, SWARM_KEY_PREFIX="other")
        yield fleet
    finally:
        fleet.close()


def test_what_goes_to_all_workers_and_what_they_tell_stays_in_its_swarm(neighbours: Fleet) -> None:
    other = neighbours.settings.model_copy(update={"key_prefix": "other"})
    names = {}
    for settings in (neighbours.settings, other):
        replies = make_app(settings.model_copy(update={"redis_url": neighbours.url})).control.ping(timeout=2)
        [names[settings.key_prefix]] = [name for reply in replies for name in reply]
    assert names == {"swarm": "w1@test", "other": "w2@test"}

    seen: list[str] = []
    app = make_app(other.model_copy(update={"redis_url": neighbours.url}))
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["hostname"])})
        job = neighbours.submit("TREE depth=1 fanout=1 steps=1", neighbours.rehearse(latency_seconds=0.01))
        assert job.wait(30).state == "completed"

        def heard() -> bool:
            receiver.capture(limit=1, timeout=10, wakeup=True)
            return "w2@test" in seen

        wait_for("the other's worker is heard", heard)
    assert set(seen) == {"w2@test"}


def test_no_key_of_the_broker_is_shared(neighbours: Fleet) -> None:
    server = neighbours.rehearse(latency_seconds=0.01)
    assert neighbours.submit("TREE depth=1 fanout=1 steps=1", server).wait(30).state == "completed"
    client = Swarm(neighbours.settings).store.keyspace.client
    shared = [key for key in client.scan_iter() if "swarm" not in key and "other" not in key]
    assert shared == []
