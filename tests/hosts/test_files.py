"""Files that follow their agent from host to host, of which none has the person's folder.

Tests of swarm/runtime/workspace_sync.py, swarm/workspace/repository.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swarm.agent.entries import ToolFinished
from swarm.agent.notes import UNDONE
from tests.hosts.network import HostNetwork
from tests.needs import need_program
from tests.waiting import wait_for

SCENARIO = """
name: files
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'cat note.txt; echo one > kept.txt; rm gone.txt; mkdir target; echo built > target/b'}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: 'echo half > kept.txt; echo half > half.txt; [ -e /srv/go ] || sleep 60'}}]}
  - when: {turn: 2}
    reply: {tools: [{name: Bash, input: {command: 'cat kept.txt target/b; ls'}}]}
  - reply: {text: '{last_result}'}
"""


@pytest.fixture(scope="module")
def carrying() -> Iterator[HostNetwork]:
    """Two hosts with workers, and one that has Redis and the hub."""
    need_program("git")
    network = HostNetwork("left", "right", hub=True)
    try:
        for station in network.stations:
            station.host.path("/srv/files.yaml").write_text(SCENARIO)
            station.begin_work(1, scenario="/srv/files.yaml")
        for station in network.stations:
            station.wait_ready()
        yield network
    finally:
        network.close()


@pytest.mark.long
def test_files_of_a_host_without_power_are_there_on_the_next_one(carrying: HostNetwork) -> None:
    work = carrying.store.path("/srv/only-here")
    work.mkdir()
    (work / "note.txt").write_text("carried\n")
    (work / "gone.txt").write_text("x\n")
    (work / ".gitignore").write_text("target\n")
    job = carrying.submit(carrying.store, "go", workspace="/srv/only-here")
    root = job.view().root_id
    half = f"/srv/checkouts/{root}/only-here/half.txt"
    fallen = wait_for(
        "a call is half done", lambda: [one for one in carrying.stations if one.host.path(half).exists()]
    )[0]
    [other] = [one for one in carrying.stations if one is not fallen]
    fallen.host.cut_power()
    ended = carrying.wait_ended(job)
    assert other.ran(carrying.swarm.agent(root)) and ended.state == "completed", ended.reason
    first, undone, last = (one for one in carrying.swarm.journal(root) if isinstance(one, ToolFinished))
    assert first.text.startswith("carried") and undone.text == UNDONE
    assert last.text.split("\n\n")[0].split() == ["one", "built", "kept.txt", "note.txt", "target"]
    assert f"another host ({other.host.name})" in last.text and "target came along" in last.text
    assert "another host" not in first.text
    assert sorted(path.name for path in work.iterdir()) == [".gitignore", "gone.txt", "note.txt"], (
        "the person's folder is as it was"
    )
