"""Jobs that work on a repository of a forge: they fetch it, push a branch, and open a pull request, once, whatever dies meanwhile.

Tests of swarm/capabilities/repositories/step.py, swarm/capabilities/repositories/pushes.py, swarm/capabilities/repositories/worker.py,
swarm/capabilities/repositories/pull_requests.py, swarm/capabilities/repositories/forges.py, swarm/capabilities/repositories/words.py,
swarm/workspace/remotes.py, swarm/workspace/result.py, swarm/client/repositories.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Job
from swarm.core.records import JobView
from tests.fleet import Fleet
from tests.forge_world import SECRET, Forge, git
from tests.rehearsal import RehearsalServer

KINDS = ("github", "gitlab", "gitea")
SCENARIO = """name: work
rules:
  - when: {prompt: NONE, turn: 0}
    reply: {text: Nothing to do.}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'env; git log --oneline; echo work > WORK; sed -i s/a/the/ README'}}]}
  - when: {turn: 1}
    reply: {text: I did the work.}
  - when: {turn: 2}
    reply: {tools: [{name: Bash, input: {command: 'echo more >> WORK'}}]}
  - reply: {text: I did more.}
"""


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    with closing(Forge(tmp_path / "forge", request.param)) as forge:
        yield forge


@pytest.fixture
def manned(forge: Forge, tmp_path: Path) -> Iterator[Fleet]:
    with closing(Fleet(forges=forge.forges, checkouts=tmp_path / "checkouts")) as fleet:
        fleet.start_worker(2)
        yield fleet


def submit(fleet: Fleet, forge: Forge, server: RehearsalServer, prompt: str = "Do the work", **options: object) -> Job:
    given = {"repo": forge.url, "pr": True, "base_url": server.url, "agent": "general-purpose", **options}
    return fleet.swarm.submit(prompt, **given)  # type: ignore[arg-type]


def finish(job: Job) -> JobView:
    view = job.wait(60)
    assert view.state == "completed", view
    return view


def text_of(forge: Forge) -> str:
    [one] = forge.pulls
    return str(one["description" if forge.kind == "gitlab" else "body"])


def test_a_job_becomes_a_branch_and_a_pull_request_and_later_words_go_on_there(forge: Forge, manned: Fleet) -> None:
    job = submit(manned, forge, manned.rehearse(SCENARIO), title="Write it down")
    view = finish(job)
    branch = f"swarm/{job.id}"
    assert (view.branch, view.unpushed, view.workspace) == (branch, "", forge.url)
    assert view.pull_request.startswith(forge.site)
    assert forge.read(branch, "WORK") == "work\n" and forge.read(branch, "README") == "the project\n"
    first = forge.branches()[branch]
    assert git(forge.bare, "log", "--format=%s", f"main..{branch}").split("\n")[0] == "Write it down"
    [one] = forge.pulls
    assert one["title"] == "Write it down"
    assert "I did the work." in text_of(forge) and f"swarm send {job.id}" in text_of(forge)
    text = f"A person's words.\n\n{text_of(forge)}"
    one["description" if forge.kind == "gitlab" else "body"] = text
    job.send("root", "And more")
    finish(job)
    assert forge.read(branch, "WORK") == "work\nmore\n" and forge.made == 1
    assert git(forge.bare, "rev-parse", f"{branch}~1").strip() == first, "the second push stands on the first"
    assert text_of(forge).startswith("A person's words.") and "I did more." in text_of(forge)
    assert "I did the work." not in text_of(forge)
    look_for_secret(manned)


def look_for_secret(fleet: Fleet) -> None:
    """The token is in no record, journal, log or file of the fleet, and in no environment of an agent's process."""
    client = fleet.swarm.store.keyspace.client
    for key in client.scan_iter("*"):
        assert SECRET.encode() not in (client.dump(key) or b""), key
        found = {"string": client.get, "hash": client.hgetall}.get(client.type(key))
        assert found is None or SECRET not in str(found(key)), key
    for job in fleet.swarm.jobs():
        for agent in fleet.swarm.job(job.id).agents():
            told = "".join(entry.model_dump_json() for entry in fleet.swarm.journal(agent.id))
            assert SECRET not in told and "FORGE_TOKEN" not in told
    for folder in (fleet.folder, fleet.settings.checkouts_folder()):
        for file in folder.rglob("*"):
            assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert json.dumps(fleet.settings.shared()).find(SECRET) < 0
