"""Who has an agent's files is asked first to go on with it.

Tests of swarm/runtime/workspace_sync.py, tasks/publish.py.
"""

from __future__ import annotations

import pytest

from tests.hosts.network import HostNetwork
from tests.waiting import wait_for


def test_an_agent_that_waited_goes_on_where_its_files_are(network: HostNetwork) -> None:
    job = network.submit(network.store, "TREE depth=1 fanout=3 steps=4 think=300")
    root = job.view().root_id
    wait_for("the root waits for its children", lambda: network.swarm.agent(root).state == "parked")
    [before] = [one for one in network.stations if one.ran(network.swarm.agent(root))]
    after = network.wait_ended(job)
    assert after.text == "DONE 4" and before.ran(after), after
    # Nobody else ever had its files.
    [other] = [one for one in network.stations if one is not before]
    assert not other.host.path(f"/srv/checkouts/{root}").exists()


@pytest.mark.long
def test_an_agent_whose_host_does_not_hear_goes_on_elsewhere(network: HostNetwork) -> None:
    job = network.submit(network.store, "TREE depth=1 fanout=1 steps=4 think=300")
    root = job.view().root_id
    wait_for("the root waits for its child", lambda: network.swarm.agent(root).state == "parked")
    [before] = [one for one in network.stations if one.ran(network.swarm.agent(root))]
    [other] = [one for one in network.stations if one is not before]
    # Its worker still counts as there, and its host is asked in vain.
    before.host.cable.pull()
    after = network.wait_ended(job)
    assert after.text == "DONE 2" and other.ran(after), after
