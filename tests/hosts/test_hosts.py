"""What must be true of a swarm whose hosts share no folder, and lose power and cables."""

from __future__ import annotations

import pytest

from tests.hosts.network import HostNetwork

TREE = "TREE depth=1 fanout=3 steps=3 think=400 write=1"


@pytest.mark.xfail(strict=True, reason="files do not follow their agent to a host that lacks the folder")
def test_a_job_runs_on_a_host_that_lacks_its_folder(network: HostNetwork) -> None:
    workspace = network.store.path("/srv/only-here")
    workspace.mkdir()
    (workspace / "note.txt").write_text("carried\n")
    job = network.submit(network.store, "TREE depth=0 steps=1", workspace="/srv/only-here")
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 1"), root.reason


def test_agents_of_a_host_without_power_go_on_elsewhere(network: HostNetwork) -> None:
    left, right = network.stations
    job = network.submit(network.store, TREE)
    fallen = network.wait_running(job, left)
    left.host.cut_power()
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 4"), root.reason
    assert right.ran(network.swarm.agent(fallen.id))
    effects = [line for station in network.stations for line in station.effects()]
    assert effects and len(set(effects)) == len(effects), "no command was run twice"


def test_a_host_that_nobody_hears_loses_its_agents_and_is_of_use_again_when_it_is_heard(network: HostNetwork) -> None:
    left, right = network.stations
    job = network.submit(network.store, TREE)
    cut_off = network.wait_running(job, left)
    left.host.cable.pull()
    root = network.wait_ended(job)
    assert (root.state, root.text) == ("completed", "DONE 4"), root.reason
    assert right.ran(network.swarm.agent(cut_off.id))
    left.host.cable.plug_in()
    right.host.deafen(network.store)
    again = network.wait_ended(network.submit(network.store, "TREE depth=0 steps=1"))
    assert again.state == "completed" and left.ran(again), again
    effects = [line for station in network.stations for line in station.effects()]
    assert effects and len(set(effects)) == len(effects), "no command was run twice"
