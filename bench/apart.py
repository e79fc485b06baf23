"""Redis on another host: a start and a message over a cable, with a replica, and with the disk waited for (as root)."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import closing

from bench.measure import Report, spread
from bench.starts_of import first_request_seconds, reading_seconds
from swarm import Job
from swarm.local.server_binary import find_server
from tests.hosts.host import CHECKOUT
from tests.hosts.network import HostNetwork
from tests.hosts.switch import Latency
from tests.waiting import wait_for

JOBS = 60
ONE_WAY_MS = 0.5
START_MS, READ_MS = 13.0, 19.0
"""What others publish as their p50 of an activity's start and of a signal."""


def run(report: Report, chosen: Namespace) -> None:
    """A host for Redis and its replica, one for the worker with the model's stand-in; times are the server's."""
    if os.geteuid():
        report.note("apart: only root can make hosts")
        return
    _measure(report, "a millisecond there and back", Latency(ONE_WAY_MS), durable=False)
    start, read = _measure(report, "the same, a replica, each write on the disk", Latency(ONE_WAY_MS), durable=True)
    report.figure("apart, enqueued → first request p50", start, " ms", target=START_MS)
    report.figure("apart, message → read p50", read, " ms", target=READ_MS)


def _measure(report: Report, name: str, latency: Latency, *, durable: bool) -> tuple[float, float]:
    with closing(HostNetwork("station", latency=latency)) as network:
        client = network.swarm.store.keyspace.client
        if durable:
            _make_durable(network)
        network.stations[0].begin_work(4)
        network.stations[0].wait_ready()
        # The first ones open connections.
        for _ in range(6):
            network.wait_ended(_submit(network))
        starts, reads = [], []
        for _ in range(JOBS):
            job = _submit(network)
            network.wait_ended(job)
            starts.append(first_request_seconds(network.swarm.store, job))
            root = job.view().root_id
            job.send("root", "go on")
            reads.append(_wait_read(network, root))
            network.wait_ended(job)
        fsync = client.config_get("appendfsync")["appendfsync"]
    report.note(f"{name} (appendfsync {fsync}): enqueued → first request {spread(starts, ' ms', 1e3)}")
    report.note(f"{name} (appendfsync {fsync}): message → read {spread(reads, ' ms', 1e3)}")
    return sorted(starts)[len(starts) // 2] * 1e3, sorted(reads)[len(reads) // 2] * 1e3


def _submit(network: HostNetwork) -> Job:
    # A folder that is on all hosts, if only to be read.
    return network.swarm.submit("TREE depth=0 steps=0", agent="general-purpose", workspace=CHECKOUT / "bench")


def _wait_read(network: HostNetwork, root: str) -> float:
    return wait_for("it has read", lambda: reading_seconds(network.swarm.store, root), 20)[0]


def _make_durable(network: HostNetwork) -> None:
    client = network.swarm.store.keyspace.client
    client.config_set("appendfsync", "always")
    listen = ("--bind", network.store.address, "--port", "6380", "--dir", "/tmp", "--protected-mode", "no")
    replica = ("--replicaof", f"{network.store.address} 6379", "--appendonly", "yes", "--appendfsync", "always")
    network.store.start(str(find_server().path), *listen, *replica, log="replica.log")
    wait_for("a replica follows", lambda: client.info("replication")["connected_slaves"] == 1)
