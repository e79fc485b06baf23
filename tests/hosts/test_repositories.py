"""A repository of a forge, worked on over hosts that share nothing: one of them loses its power, and one branch and pull request remain.

Tests of swarm/capabilities/repositories/step.py, swarm/workspace/remotes.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.forge_world import SECRET
from tests.hosts.host import DISK
from tests.hosts.network import HostNetwork
from tests.waiting import wait_for

TREE = "TREE depth=1 fanout=2 steps=3 think=300 write=1"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["at work", "at the end"])
def test_a_power_cut_leaves_one_branch_and_one_pull_request(network: HostNetwork, moment: str) -> None:
    left, right = network.stations
    url = _start_forge(network)
    command = [sys.executable, "-P", "-m", "swarm", "run", "--detach", "--quiet", "--repo", url, "--pr", TREE]
    env = {**network.environment(), "SWARM_FORGES": "{}"}
    job = network.swarm.job(network.store.run(*command, env=env, cwd="/").split()[-1])
    root = job.view().root_id
    if moment == "at work":
        wait_for("the root waits for its children", lambda: len(job.agents()) == 3)
        wait_for("it runs", lambda: any(one.state == "running" for one in job.agents()))
        fallen = left if any(left.ran(one) for one in job.agents() if one.state == "running") else right
    else:
        wait_for("a branch is there", lambda: job.view().branch or _list_branches(network, job.id), 90)
        fallen = left if left.ran(network.swarm.agent(root)) else right
    fallen.host.cut_power()
    ended = network.wait_ended(job, 90)
    assert ended.state == "completed", ended.reason
    view = job.view()
    assert (view.branch, view.unpushed) == (f"swarm/{job.id}", ""), view
    [one] = [each for each in _list_pulls(network) if each["head"]["ref"] == view.branch]
    assert one["html_url"] == view.pull_request
    assert _list_branches(network, job.id) == [f"swarm/{job.id}"]


def _start_forge(network: HostNetwork) -> str:
    try:
        _list_pulls(network)
    except AssertionError:
        return network.start_forge()
    return f"{network.forge}/owner/project.git"


def _list_pulls(network: HostNetwork) -> list[dict[str, dict[str, str]]]:
    program = f"""import urllib.request
headers = {{"Authorization": "token {SECRET}"}}
asked = urllib.request.Request("{network.forge}/api/v1/repos/owner/project/pulls?state=open", headers=headers)
print(urllib.request.urlopen(asked, timeout=10).read().decode())"""
    return json.loads(network.store.run(sys.executable, "-c", program, cwd="/"))  # type: ignore[no-any-return]


def _list_branches(network: HostNetwork, job_id: str) -> list[str]:
    bare = network.store.path(f"{DISK}/forge/owner/project.git")
    words = [
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "safe.bareRepository=all",
        "for-each-ref",
        "--format=%(refname:short)",
    ]
    listed = subprocess.run(
        [*words, f"refs/heads/swarm/{job_id}"], cwd=bare, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()
