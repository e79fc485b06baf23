"""Hosts with a folder each at the same path, as clones are: what loses power, its cable or the hub goes on elsewhere.

Tests of swarm/hub, swarm/runtime/workspace_sync.py, tasks/host.py.
"""

from __future__ import annotations

import sys

import pytest

from tests.hosts.network import HUB_PORT, HostNetwork
from tests.waiting import wait_for

MODULE = (sys.executable, "-P", "-m", "swarm")
TREE = "TREE depth=1 fanout=3 steps=3 think=400 write=1"


def test_agents_of_a_host_without_power_go_on_elsewhere(network: HostNetwork) -> None:
    left, right = network.stations
    job = network.submit(network.store, TREE, carried=False)
    fallen = network.wait_running(job, left)
    left.host.cut_power()
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 4"), root.reason
    assert right.ran(network.swarm.agent(fallen.id))
    effects = [line for station in network.stations for line in station.effects()]
    assert effects and len(set(effects)) == len(effects), "no command was run twice"


@pytest.mark.long
def test_a_host_that_nobody_hears_loses_its_agents_and_is_of_use_again_when_it_is_heard(network: HostNetwork) -> None:
    left, right = network.stations
    job = network.submit(network.store, TREE, carried=False)
    cut_off = network.wait_running(job, left)
    left.host.cable.pull()
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 4"), root.reason
    assert right.ran(network.swarm.agent(cut_off.id))
    left.host.cable.plug_in()
    right.host.deafen(network.store)
    again = network.wait_ended(network.submit(network.store, "TREE depth=0 steps=1", carried=False))
    assert again.state == "completed" and left.ran(again), again
    effects = [line for station in network.stations for line in station.effects()]
    assert effects and len(set(effects)) == len(effects), "no command was run twice"


@pytest.mark.long
def test_agents_of_a_host_that_alone_loses_the_hub_go_on_elsewhere_and_one_line_says_so(network: HostNetwork) -> None:
    left, right = network.stations
    job = network.submit(network.store, TREE)
    cut_off = network.wait_running(job, left)
    left.host.shut_out(HUB_PORT)
    sick = wait_for("it knows", lambda: {has.host: has.sick for has in network.swarm.workers() if has.sick})
    assert sick.keys() == {"left"} and "does not reach the hub" in sick["left"] and "which others reach" in sick["left"]
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 4"), root.reason
    assert right.ran(network.swarm.agent(cut_off.id)) and network.swarm.agent(cut_off.id).deaths == 0
    told = network.store.run(*MODULE, "status", env=network.environment(), cwd="/").splitlines()
    assert [line.split()[1] for line in told if line.startswith("sick")] == ["left"], told
