"""The short form of `python -m tests.hosts.run`: a tree of writing agents under a storm, and every file where its journal says.

What they did is merged by their parent; of every two siblings that made the same file one conflicts, and is reported.

Tests of swarm/runtime/workspace_sync.py, tests/hosts/run.py.
"""

from __future__ import annotations

import random

import pytest

from tests.hosts.files_check import check_files, find_left
from tests.hosts.network import HostNetwork
from tests.hosts.run import clean_up, submit
from tests.hosts.storm import Storm


@pytest.mark.long
def test_a_tree_of_writing_agents_loses_no_file_and_does_nothing_twice_under_power_cuts(network: HostNetwork) -> None:
    storm = Storm(network, random.randrange(1_000), pause_seconds=(0.5, 1.5), hold_seconds=(0.5, 2.0))
    storm.job = job = submit(network, writers=10, steps=3)
    storm.begin()
    try:
        root = network.wait_ended(job)
    finally:
        storm.end()
    assert (root.state, root.text) == ("completed", "DONE 11"), (root, storm.seed, storm.blows)
    verdict = check_files(network, job)
    assert not verdict.faults and verdict.effects + verdict.undone == 30, (verdict, storm.seed, storm.blows)
    assert verdict.merged + verdict.conflicts == 10 and verdict.merged >= 5, (verdict, storm.seed, storm.blows)
    assert find_left(network), "its files are kept as long as it is known"
    assert clean_up(network) == []
