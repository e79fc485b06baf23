"""Redis at its limits: its memory is used up, its primary dies and a replica takes over."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.fleet import Fleet
from tests.needs import need_program
from tests.waiting import wait_for


def test_a_redis_without_memory_stops_work_and_loses_nothing(fleet: Fleet) -> None:
    worker = fleet.start_worker(2)
    job = fleet.submit("TREE depth=2 fanout=3 steps=3", fleet.rehearse(latency_seconds=0.1))
    client = fleet.swarm.store.client
    wait_for("work is going on", lambda: job.view().turns > 5)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        fleet.submit("TREE depth=0 fanout=0 steps=0", fleet.rehearse())
    stopped_at = job.view().turns
    wait_for("a worker has said why", lambda: "maxmemory" in worker.text())
    assert not job.view().ended and job.view().turns <= stopped_at + 2
    client.config_set("maxmemory", 0)
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("completed", "DONE 13", 13)
    assert worker.process.poll() is None


class Group:
    """A primary, a replica and a sentinel that watches them."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        self._processes: list[subprocess.Popen[bytes]] = []
        primary, replica, sentinel = _free_ports(3)
        self.primary = self._start("primary", primary, "appendonly yes")
        wait_for("the primary answers", lambda: _answers(primary))
        self._start("replica", replica, "appendonly yes", f"replicaof 127.0.0.1 {primary}")
        wait_for("the replica follows", lambda: _follows(replica))
        watch = f"sentinel monitor swarm 127.0.0.1 {primary} 1"
        times = ("sentinel down-after-milliseconds swarm 1000", "sentinel failover-timeout swarm 3000")
        self._start("sentinel", sentinel, watch, *times, sentinel=True)
        wait_for("the sentinel knows the replica", lambda: _knows_replica(sentinel))
        self.url = f"sentinel://127.0.0.1:{sentinel}/swarm/0"

    def _start(self, name: str, port: int, *lines: str, sentinel: bool = False) -> subprocess.Popen[bytes]:
        folder = self._folder / name
        folder.mkdir()
        config = folder / "redis.conf"
        config.write_text("\n".join([f"port {port}", "bind 127.0.0.1", f"dir {folder}", *lines]) + "\n")
        process = subprocess.Popen(
            [self._binary, str(config), *(["--sentinel"] if sentinel else [])], stdout=subprocess.DEVNULL
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(10)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _answers(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port).ping())
    except redis.RedisError:
        return False


def _follows(port: int) -> bool:
    try:
        return redis.Redis(port=port).info("replication").get("master_link_status") == "up"
    except redis.RedisError:
        return False


def _knows_replica(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port, decode_responses=True).execute_command("SENTINEL", "REPLICAS", "swarm"))
    except redis.RedisError:
        return False


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    started = Group(need_program("redis-server"), tmp_path)
    yield started
    started.close()


def test_a_replica_takes_over_under_load_and_the_job_goes_on(group: Group) -> None:
    fleet = Fleet(redis_url=group.url)
    try:
        fleet.start_worker(2)
        job = fleet.submit("TREE depth=2 fanout=3 steps=4", fleet.rehearse(latency_seconds=0.2))
        wait_for("work is going on", lambda: job.view().turns > 8)
        group.primary.kill()
        view = job.wait(90)
        assert (view.state, view.text, view.agents) == ("completed", "DONE 13", 13)
        assert all(worker.process.poll() is None for worker in fleet.workers)
    finally:
        fleet.close()
