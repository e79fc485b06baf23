"""Files that follow their agent: through a hub, from one host to the next. Another host is one whose checkouts are gone.

Tests of swarm/runtime/workspace_sync.py, swarm/runtime/shared_checkout.py, swarm/workspace/changes.py, swarm/workspace/checkouts.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Job
from swarm.agent.entries import ToolFinished
from swarm.agent.notes import UNDONE
from swarm.client.project import gather
from swarm.core.errors import NotOwner
from swarm.permissions.trust import TrustStore
from swarm.replay.past import read_past
from swarm.replay.resumption import Resumption, go_on
from swarm.replay.score import Score, score
from swarm.runtime.parts import Parts
from swarm.store.values import Claim
from swarm.workspace import changes
from swarm.workspace.checkouts import hold_for_reading, job_url
from swarm.workspace.leftovers import take_away
from swarm.workspace.repository import Repository
from tests.fleet import Fleet
from tests.hub_world import TOKEN, HubProcess
from tests.needs import need_program
from tests.segments import make_segment
from tests.waiting import wait_for


@pytest.fixture
def hubbed(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose files go through a hub, which is a folder."""
    need_program("git")
    with closing(Fleet(hub=str(tmp_path / "hub"), checkouts=tmp_path / "checkouts")) as fleet:
        yield fleet


def play(*steps: str, end: str = "END") -> str:
    """A scenario: in each turn these calls, and then the end."""
    rules = [f"  - when: {{turn: {turn}}}\n    reply: {{tools: [{step}]}}" for turn, step in enumerate(steps)]
    return "\n".join(["name: files", "rules:", *rules, f"  - reply: {{text: '{end} {{last_result}}'}}", ""])


def bash(command: str) -> str:
    return f"{{name: Bash, input: {{command: {command!r}}}}}"


def write(path: str, content: str) -> str:
    return f"{{name: Write, input: {{file_path: '{{workspace}}/{path}', content: {content!r}}}}}"


def edit(path: str, old: str, new: str) -> str:
    return f"{{name: Edit, input: {{file_path: '{{workspace}}/{path}', old_string: {old!r}, new_string: {new!r}}}}}"


def read(path: str) -> str:
    return f"{{name: Read, input: {{file_path: '{{workspace}}/{path}'}}}}"


def results(fleet: Fleet, job: Job) -> list[ToolFinished]:
    return [entry for entry in fleet.swarm.journal(job.agents()[0].id) if isinstance(entry, ToolFinished)]


def left_by(fleet: Fleet, job: Job, folder: Path) -> Path:
    """What the hub has of the job's end."""
    commits = [entry.commit for entry in results(fleet, job) if entry.commit]
    repository = Repository.make(folder / "got.git", folder / "got")
    assert fleet.settings.hub is not None
    repository.fetch(job_url(fleet.settings.hub, job.id, "sha1"), commits[-1])
    repository.become(commits[-1])
    return repository.tree


def test_a_job_works_on_a_copy_and_each_entry_names_what_its_call_left(hubbed: Fleet, tmp_path: Path) -> None:
    folder = hubbed.workspace
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a.txt").write_text("uncommitted\n")
    hubbed.start_worker(1)
    steps = play(
        read("a.txt"), edit("a.txt", "uncommitted", "changed"), bash("cat a.txt; mkdir d; echo b > d/b"), bash("true")
    )
    server = hubbed.rehearse(steps)
    job = hubbed.submit("go", server)
    assert job.wait(40).state == "completed"
    assert (folder / "a.txt").read_text() == "uncommitted\n" and not (folder / "d").exists()
    looked, edited, ran, nothing = results(hubbed, job)
    assert "changed" in ran.text and (looked.commit, nothing.commit) == ("", "") and edited.commit and ran.commit
    there = left_by(hubbed, job, tmp_path)
    assert (there / "a.txt").read_text() == "changed\n" and (there / "d/b").exists()
    assert hubbed.settings.hub is not None
    url, branch = job_url(hubbed.settings.hub, job.id, "sha1"), f"swarm/{job.id}"
    listed = subprocess.run(["git", "ls-remote", url, branch], check=True, capture_output=True, text=True).stdout
    assert listed.split() == [ran.commit, f"refs/heads/{branch}"]
    view = job.view()
    assert (view.files, view.workspace) == ("carried", str(folder))
    past = read_past(hubbed.swarm.store, job.id)
    made = go_on(hubbed.swarm, past, Resumption(past.root, 2), lambda _: server.url)
    assert made.restored and made.job.wait(40).state == "completed"
    assert [result.commit == edited.commit for result in results(hubbed, made.job)] == [False, True, False, False]
    said = score(hubbed.swarm, made.job.id, made.workspace, "cat a.txt d/b | tr '\\n' ' '")
    assert said == Score(True, "changed b"), "the files that it left, wherever it worked"


def test_on_another_host_a_half_done_call_is_undone_and_what_was_read_is_still_known(
    hubbed: Fleet, tmp_path: Path
) -> None:
    (hubbed.workspace / "a.txt").write_text("one\n")
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(hubbed.workspace)], check=True)
    named = ["git", "-c", "user.name=p", "-c", "user.email=p@x"]
    for words in (["add", "a.txt"], ["commit", "-qm", "first"]):
        subprocess.run([*named, *words], cwd=hubbed.workspace, check=True)
    (hubbed.workspace / ".git/info/exclude").write_text("node_modules\n")
    first = hubbed.start_worker(1)
    steps = play(
        bash(
            "mkdir node_modules; echo dependency > node_modules/d; echo two > b.txt; git add b.txt; git commit -qm second"
        ),
        read("a.txt"),
        bash("echo half > b.txt; git commit -qam lost; echo half > c.txt; touch /tmp/{prompt}; sleep 60").replace(
            "{prompt}", "x-" + tmp_path.name
        ),
        edit("a.txt", "one", "three"),
        bash(
            "cat a.txt b.txt node_modules/d; ls; git status -sb; "
            "git log --format=%s; git blame -s a.txt | wc -l; git remote; ls .git/hooks 2>&- || :"
        ),
    )
    job = hubbed.submit("go", hubbed.rehearse(steps))
    agent = job.agents()[0].id
    checkout = hubbed.settings.checkouts_folder() / agent / "workspace"
    wait_for("it is half done", (checkout / "c.txt").exists, 30)
    first.kill()
    # The command's sandbox may still be at work there.
    hubbed.settings.checkouts_folder().rename(tmp_path / "lost")
    hubbed.start_worker(1)
    assert job.wait(60).state == "completed"
    _, _, undone, edited, looked = results(hubbed, job)
    assert undone.text == UNDONE and undone.is_error
    assert not edited.is_error, edited.text
    assert "node_modules came along" in edited.text
    words = [
        "three",
        "two",
        "dependency",
        "a.txt",
        "b.txt",
        "node_modules",
        "##",
        "trunk",
        "M",
        "a.txt",
        "second",
        "first",
        "1",
    ]
    assert looked.text.split() == words, "no remote and no hook"
    work = job.work()
    assert work.apply().changed == {"a.txt": "M", "b.txt": "A"}
    log = ["git", "log", "--format=%an %s", work.make_branch()]
    told = subprocess.run(log, cwd=hubbed.workspace, check=True, capture_output=True, text=True).stdout
    assert told == f"swarm go\n{agent} second\np first\n"


def test_a_new_checkout_is_set_up_before_its_agent_goes_on_and_a_failure_is_told(hubbed: Fleet) -> None:
    folder = hubbed.workspace
    (folder / ".gitignore").write_text("deps\n")
    (folder / ".swarm").mkdir()
    # The first time it is cut off; where the agent left `broken`, it fails.
    (folder / ".swarm/setup").write_text(
        '#!/bin/sh -e\ncd "$(dirname "$0")/.."\n'
        "if test -e broken; then echo no such package; exit 3; fi\n"
        "if ! test -e deps; then mkdir deps; touch deps/begun; sleep 60; fi\n"
        "echo made >> deps/made\n"
    )
    TrustStore(hubbed.settings.state_folder()).trust(folder, gather(folder, hubbed.settings).grants)
    first = hubbed.start_worker(1)
    steps = play(
        bash("cat deps/made; touch broken"),
        bash("touch half; sleep 60"),
        bash("ls deps"),
        bash("true"),
    )
    job = hubbed.submit("go", hubbed.rehearse(steps))
    checkout = hubbed.settings.checkouts_folder() / job.agents()[0].id / "workspace"
    wait_for("it is being set up", (checkout / "deps/begun").exists, 30)
    assert job.agents()[0].turns == 0, "no turn is taken before"
    first.kill()
    second = hubbed.start_worker(1)
    wait_for("the agent works", (checkout / "half").exists, 30)
    second.kill()
    copies = hubbed.settings.checkouts_folder()
    # What a killed worker's sandbox leaves is removed by a process that outlives it.
    wait_for("the copies are gone", lambda: shutil.rmtree(copies, ignore_errors=True) or not copies.exists(), 10)
    hubbed.start_worker(1)
    assert job.wait(60).state == "completed"
    looked, _, elsewhere, after = results(hubbed, job)
    assert looked.text.split() == ["made"]
    assert "another host" in elsewhere.text and ".swarm/setup" in elsewhere.text
    assert "exited with 3" in elsewhere.text and "no such package" in elsewhere.text
    assert "setup" not in after.text


def test_a_hub_that_is_away_is_waited_for_and_nothing_is_lost(hubbed: Fleet, tmp_path: Path) -> None:
    worker = hubbed.start_worker(1)
    steps = play(bash("echo one > a.txt"), bash("echo two > b.txt"), bash("ls"))
    hub = Path(str(hubbed.settings.hub))
    job = hubbed.submit("go", hubbed.rehearse(steps, latency_seconds=0.3))
    hub.rename(tmp_path / "away")
    hub.write_text("not mounted")
    said = wait_for("it says so", lambda: "waits for the hub" in hubbed.swarm.agent(job.agents()[0].id).activity, 30)
    assert said and not job.view().ended
    hub.unlink()
    (tmp_path / "away").rename(hub)
    assert job.wait(40).state == "completed"
    assert sorted(path.name for path in left_by(hubbed, job, tmp_path).iterdir()) == ["a.txt", "b.txt"]
    assert worker.stop(signal.SIGTERM) == 0


def test_a_worker_without_the_hub_leaves_the_job_to_others_and_that_is_shown(hubbed: Fleet) -> None:
    hubbed.start_worker(1, SWARM_HUB="/elsewhere")
    job = hubbed.submit("go", hubbed.rehearse(play(bash("ls"))))
    lack = wait_for("it is said", job.find_unmet, 20)
    assert "SWARM_HUB" in lack
    hubbed.start_worker(1)
    assert job.wait(60).state == "completed"


def test_what_does_not_follow_is_told_once_and_at_the_start(hubbed: Fleet) -> None:
    size = changes.MOST_BYTES + 1
    subprocess.run(["truncate", "-s", str(size), str(hubbed.workspace / "big")], check=True)
    hubbed.start_worker(1)
    steps = play(bash(f"truncate -s {size} large; echo x > a"), bash("echo y > b"))
    job = hubbed.submit("go", hubbed.rehearse(steps))
    assert any("big" in warning for warning in job.warnings)
    assert job.wait(40).state == "completed"
    first, second = results(hubbed, job)
    assert f"large: it has {size:,} bytes" in first.text and "large" not in second.text


def test_children_begin_with_what_their_parent_has_and_work_on_copies(hubbed: Fleet) -> None:
    hubbed.start_worker(2)
    scenario = """
name: tree
rules:
  - when: {prompt: 'look', turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'cat a.txt; echo child > a.txt'}}]}
  - when: {prompt: 'look'}
    reply: {text: 'saw {last_result}'}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'echo parent > a.txt'}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Agent, input: {description: a look, prompt: 'look', subagent_type: general-purpose}}]}
  - when: {turn: 2}
    reply: {tools: [{name: Bash, input: {command: 'ls'}}]}
  - reply: {text: END}
"""
    job = hubbed.submit("go", hubbed.rehearse(scenario))
    assert job.wait(40).state == "completed"
    child = job.agents()[1]
    assert "saw parent" in child.text


def test_who_only_reads_shares_one_checkout_and_it_stays_while_it_is_read(hubbed: Fleet) -> None:
    hubbed.start_worker(2)
    (hubbed.workspace / "a.txt").write_text("one\n")
    look = "{name: Agent, input: {description: a look, prompt: 'look', subagent_type: explore}}"
    scenario = f"""
name: readers
rules:
  - when: {{prompt: 'look', turn: 0}}
    reply: {{tools: [{read("a.txt")}]}}
  - when: {{prompt: 'look'}}
    reply: {{text: 'saw {{last_result}}'}}
  - when: {{turn: 0}}
    reply: {{tools: [{look}, {look}]}}
  - reply: {{text: END}}
"""
    job = hubbed.submit("go", hubbed.rehearse(scenario))
    assert job.wait(40).state == "completed"
    root, *readers = job.agents()
    assert len(readers) == 2 and all("one" in reader.text for reader in readers)
    checkouts = hubbed.settings.checkouts_folder()
    [shared] = {path.stem for path in checkouts.glob(f"{job.id}-*.git")}
    assert {path.name for path in checkouts.glob("agent-*")} == {root.id, f"{root.id}.git"}
    assert (checkouts / shared / "workspace/a.txt").read_text() == "one\n"
    held = hold_for_reading(checkouts / f"{shared}.git")
    assert not take_away(checkouts, shared) and (checkouts / shared).exists()
    os.close(held)
    assert take_away(checkouts, shared) and not (checkouts / shared).exists()


def test_snapshots_of_a_shared_folder_are_kept_on_its_host(tmp_path: Path) -> None:
    need_program("git")
    with closing(Fleet(snapshots=True)) as fleet:
        fleet.start_worker(1)
        job = fleet.submit("go", fleet.rehearse(play(bash("echo one > a.txt"), bash("echo two > a.txt"))))
        assert job.wait(40).state == "completed"
        assert (fleet.workspace / "a.txt").read_text() == "two\n" and job.view().files == "snapshots"
        first, second = (entry.commit for entry in results(fleet, job))
        [kept] = (fleet.settings.state_folder() / "snapshots").iterdir()
        repository = Repository(kept, fleet.workspace)
        assert repository.read_file(first, "a.txt") == b"one\n" and repository.read_file(second, "a.txt") == b"two\n"


def test_a_served_hub_holds_a_folder_once_for_all_of_its_jobs_and_a_job_no_more_than_its_share(tmp_path: Path) -> None:
    need_program("git")
    with closing(HubProcess(tmp_path / "hub", SWARM_HUB_JOB_MIB="1")) as hub:
        given = {"hub": hub.url, "hub_token": TOKEN, "checkouts": tmp_path / "checkouts"}
        with closing(Fleet(**given)) as fleet:
            (fleet.workspace / "large").write_bytes(os.urandom(3 << 20))
            fleet.start_worker(1)
            first = fleet.submit("go", fleet.rehearse(play(bash("echo one > a.txt"))))
            assert first.wait(40).state == "completed", first.view().reason
            steps = play(bash("head -c 3000000 /dev/urandom > random; echo x > b.txt"), bash("ls"))
            second = fleet.submit("go", fleet.rehearse(steps))
            assert second.wait(40).state == "completed"
            refused, after = results(fleet, second)
            assert "takes no more" in refused.text and refused.is_error and not refused.commit
            assert after.text.split() == ["large"]
            [base] = subprocess.run(
                ["git", f"--git-dir={hub.folder}/jobs/base.git", "for-each-ref"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()
            assert "refs/swarm/base/" in base


def test_whoever_lost_the_agent_on_the_same_host_keeps_nothing_in_its_successors_folder(hubbed: Fleet) -> None:
    store, job = hubbed.swarm.store, hubbed.submit("go", hubbed.rehearse(play(bash("ls"))))
    root = job.view().root_id
    lives = []
    for _ in range(2):
        claim = store.agents.claim(root, "worker", 60)
        assert isinstance(claim, Claim)
        files = Parts(make_segment(claim, store, hubbed.settings)).files
        files.before_segment()
        files.before_call({"id": "call"})
        lives.append((claim, files))
        if len(lives) == 1:
            store.agents.hand_over(claim, "it was taken for dead")
    (_, stale), (_, owner) = lives
    finished = ToolFinished(tool_use_id="call", text="done")
    checkout = hubbed.settings.checkouts_folder() / root / hubbed.workspace.name
    (checkout / "a.txt").write_text("the successor's")
    with pytest.raises(NotOwner):
        stale.keep(finished)
    assert owner.keep(finished).commit
