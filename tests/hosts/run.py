"""The long form: trees of writing agents on hosts that share nothing, under power cuts and partitions.

python -m tests.hosts.run --minutes 5 --seed 1            # as root; exit code 1 if a promise was broken
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from swarm import Job
from tests.hosts.files_check import Verdict, check_files, find_left
from tests.hosts.network import HostNetwork
from tests.hosts.storm import Storm, measure_moves

JOB_SECONDS = 900.0


def main() -> int:
    """Play it, print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.run")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, default=60, help="agents of a tree that write")
    parser.add_argument("--steps", type=int, default=4, help="commands that each of them runs")
    parser.add_argument("--files", type=int, default=1_000, help="files of the workspace")
    parser.add_argument("--hosts", type=int, default=3, help="hosts with a worker each")
    parser.add_argument("--processes", type=int, default=4, help="processes of each worker")
    given = parser.parse_args()
    with closing(HostNetwork(*(f"host{number}" for number in range(1, given.hosts + 1)), hub=True)) as network:
        for station in network.stations:
            station.begin_work(given.processes)
        for station in network.stations:
            station.wait_ready()
        make_files(network, given.files)
        return play(network, given)


def make_files(network: HostNetwork, count: int) -> None:
    """Fill the workspace of who submits."""
    for number in range(count):
        folder = network.store.path(f"/srv/work/part{number % 40}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(f"line {number}\n" * 40)


def play(network: HostNetwork, given: argparse.Namespace) -> int:
    """One tree after the other until the time is over; returns the exit code."""
    storm = Storm(network, given.seed)
    until, moves, jobs = time.monotonic() + given.minutes * 60, [], 0
    total = Verdict()
    storm.begin()
    try:
        while time.monotonic() < until:
            with storm.hub_is_used:
                storm.job = job = submit(network, given.writers, given.steps)
            root = network.wait_ended(job, JOB_SECONDS)
            if (root.state, root.text) != ("completed", f"DONE {given.writers + 1}"):
                total.faults.append(f"{job.id}: {root.state}, {root.text!r} {root.reason}")
            jobs, storm.job = jobs + 1, None
            add(total, check_files(network, job))
            moves += measure_moves(network, job, storm.falls)
            storm.falls.clear()
    finally:
        storm.end()
    print(
        f"{jobs} jobs, {total.agents} agents, {total.effects} effects in {total.commits} commits, {total.undone} calls undone"
    )
    print(f"{total.merged} agents' work merged by their parents, {total.conflicts} conflicts reported to them")
    print(f"blows: {dict(storm.blows)}")
    print(show_moves(moves, given.files), flush=True)
    total.faults += clean_up(network)
    print("\n".join(total.faults) or "nothing lost, nothing twice, nothing left, conflicts all reported")
    return bool(total.faults)


def submit(network: HostNetwork, writers: int, steps: int) -> Job:
    """A tree with so many agents that write so often, every two of them to a file that their parent cannot merge for both."""
    order = f"TREE depth=1 fanout={writers} steps={steps} write=2 think=200"
    return network.submit(network.store, order, "--max-agents", "1000", "--max-depth", "2")


def add(total: Verdict, one: Verdict) -> None:
    """Count one more job."""
    total.agents, total.effects = total.agents + one.agents, total.effects + one.effects
    total.undone, total.commits = total.undone + one.undone, total.commits + one.commits
    total.merged, total.conflicts = total.merged + one.merged, total.conflicts + one.conflicts
    total.faults += one.faults


def show_moves(moves: Sequence[tuple[float, float]], files: int) -> str:
    """What a power cut cost those who ran there."""
    if not moves:
        return "nobody moved after a power cut"
    beyond, brought = (statistics.median(one[at] for one in moves) for at in (0, 1))
    figures = f"{beyond:.2f} s from the lease's end until the files were there, of these {brought:.2f} s to bring them"
    return f"{len(moves)} moves after power cuts, {files} files, medians: {figures}"


def clean_up(network: HostNetwork) -> list[str]:
    """Have the jobs forgotten, the hub and the stations look, and tell what is left there."""
    client, prefix = network.swarm.store.keyspace.client, network.swarm.store.keyspace.key("")
    for key in client.scan_iter(f"{prefix}*"):
        name = str(key).removeprefix(prefix)
        if name.startswith(("job:", "agent:")):
            client.delete(key)
    network.look_through()
    return [f"left: {one}" for one in find_left(network)]


if __name__ == "__main__":
    sys.exit(main())
