"""What a power cut costs an agent that nobody stands in line with: `python -m tests.hosts.moves --moves 7 --files 1000`, as root."""

from __future__ import annotations

import argparse
from contextlib import closing

from tests.hosts.network import HostNetwork, Station
from tests.hosts.run import make_files, show_moves
from tests.hosts.storm import Storm, measure_moves
from tests.waiting import wait_for


def main() -> None:
    """Cut the power of the host that runs the one agent there is, again and again; print the medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.moves")
    parser.add_argument("--moves", type=int, default=7)
    parser.add_argument("--files", type=int, default=1_000, help="files of the workspace")
    given = parser.parse_args()
    with closing(HostNetwork("left", "right", hub=True)) as network:
        for station in network.stations:
            station.begin_work()
        for station in network.stations:
            station.wait_ready()
        make_files(network, given.files)
        print(show_moves([move for _ in range(given.moves) for move in move_once(network)], given.files))


def move_once(network: HostNetwork) -> list[tuple[float, float]]:
    """One agent whose host loses its power between two of its calls; it ends on the other one."""
    storm = Storm(network, 0, hold_seconds=(0, 0))
    storm.job = job = network.submit(network.store, "TREE depth=0 steps=6 write=1 think=400")
    root = job.view().root_id

    def find() -> Station | None:
        view = network.swarm.agent(root)
        return next((one for one in network.stations if view.length >= 6 and one.ran(view)), None)

    storm.cut_power(wait_for("it has called twice", find))
    ended = network.wait_ended(job)
    assert ended.text == "DONE 1", ended.reason
    return measure_moves(network, job, storm.falls)


if __name__ == "__main__":
    main()
