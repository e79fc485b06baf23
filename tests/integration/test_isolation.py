"""Agents that work in copies of their own: real workers, real git; their parent merges what they did.

Tests of swarm/runtime/isolation.py, swarm/workspace/copies.py, swarm/workspace/merge.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm import Job
from swarm.agent.entries import Prompt, ToolFinished
from swarm.core.records import AgentView
from tests.fleet import Fleet


def part(prompt: str, **given: Any) -> dict[str, Any]:
    """A call that starts an agent."""
    return {"name": "Agent", "input": {"description": "part", "prompt": prompt, **given}}


def agent(prompt: str, **given: Any) -> dict[str, Any]:
    """A call that starts an agent in a copy."""
    return part(prompt, isolation="worktree", **given)


def bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": command}}


def rule(prompt: str, turn: int | str, *tools: dict[str, Any], text: str = "", **when: Any) -> dict[str, Any]:
    """What is said in one turn of whoever has this prompt."""
    reply: dict[str, Any] = {"tools": list(tools)} if tools else {"text": text or "done"}
    return {"when": {"prompt": prompt, "turn": turn, **when}, "reply": reply}


def scenario(*rules: dict[str, Any]) -> str:
    return yaml.safe_dump({"name": "copies", "rules": list(rules)})


def doing(prompt: str, command: str) -> list[dict[str, Any]]:
    """An agent that runs one command and is done."""
    return [rule(f"^{prompt}$", 0, bash(command)), rule(f"^{prompt}$", 1)]


def results(fleet: Fleet, job: Job, index: int = 0) -> list[str]:
    """What calls of the job's n-th agent returned."""
    journal = fleet.swarm.journal(job.agents()[index].id)
    return [entry.text for entry in journal if isinstance(entry, ToolFinished)]


def child(job: Job, prompt: str, fleet: Fleet) -> AgentView:
    """The agent with this prompt."""
    for one in job.agents():
        for entry in fleet.swarm.journal(one.id):
            if isinstance(entry, Prompt) and entry.text.endswith(f"\n{prompt}"):
                return one
    raise AssertionError(prompt)


@pytest.fixture
def files(at_work: Fleet) -> Path:
    """A repository with a commit, and with changes that are not committed."""
    folder = at_work.workspace
    (folder / "shared.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    (folder / "gone.txt").write_text("here\n")
    (folder / "picture.bin").write_bytes(b"\0\1")
    (folder / ".gitignore").write_text("ignored/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "shared.txt").write_text("one\ntwo\nthree\nfour\nfive\nuncommitted\n")
    (folder / "new.txt").write_text("untracked\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=p", "-c", "user.email=p@x", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_what_siblings_did_in_copies_is_merged_in_the_order_of_their_calls(at_work: Fleet, files: Path) -> None:
    before = git(files, "rev-parse", "HEAD"), (files / ".git/index").read_bytes()
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a"), agent("do b")),
            rule("^lead$", 1),
            *doing(
                "do a", "pwd > where-a; sed -i s/one/ONE/ shared.txt; cat new.txt > seen; ls shared.txt where-b || true"
            ),
            *doing(
                "do b",
                "pwd > where-b; sed -i s/five/FIVE/ shared.txt; rm gone.txt; ln -s new.txt link; chmod +x new.txt",
            ),
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert (files / "shared.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\nuncommitted\n"
    assert (files / "seen").read_text() == "untracked\n" and not (files / "gone.txt").exists()
    assert (files / "link").readlink() == Path("new.txt") and (files / "new.txt").stat().st_mode & 0o100
    a, b = (Path((files / f"where-{one}").read_text().strip()) for one in "ab")
    assert a != b and files not in (a, b) and a.name == b.name == files.name
    first, second = results(at_work, job)
    assert "merged into your folder" in first and "M shared.txt" in first and "D gone.txt" in second
    assert {one.merge for one in job.agents()[1:]} == {"merged"}
    assert {one.isolation for one in job.agents()} == {"none", "worktree"}
    # The person's own repository has noticed nothing.
    assert before == (git(files, "rev-parse", "HEAD"), (files / ".git/index").read_bytes())


CONFLICTING = (
    *doing("do a", "sed -i s/one/A/ shared.txt; printf '\\0a' > picture.bin; rm gone.txt; echo a > only-a"),
    *doing("do b", "sed -i s/one/B/ shared.txt; printf '\\0b' > picture.bin; echo more >> gone.txt; echo b > only-b"),
)


def test_a_conflict_is_told_with_its_hunks_and_nothing_of_that_agent_is_merged(at_work: Fleet, files: Path) -> None:
    job = at_work.submit(
        "lead",
        at_work.rehearse(scenario(rule("^lead$", 0, agent("do a"), agent("do b")), rule("^lead$", 1), *CONFLICTING)),
    )
    assert job.wait(60).state == "completed"
    told = results(at_work, job)[1]
    assert "NOT merged" in told and "in 3 files" in told and child(job, "do b", at_work).id in told
    assert (
        "shared.txt: both changed it\n<<<<<<< yours/" in told
        and "\nA\n|||||||" in told
        and "\n=======\nB\n>>>>>>> theirs/" in told
    )
    assert "picture.bin: both changed it (it is binary)" in told
    assert "gone.txt: you deleted or moved it, the agent changed it" in told
    assert (files / "only-a").exists() and not (files / "only-b").exists() and not (files / "gone.txt").exists()
    assert (files / "picture.bin").read_bytes() == b"\0a" and "<<<" not in (files / "shared.txt").read_text()
    assert [one.merge for one in job.agents()[1:]] == ["merged", "conflict"]


@pytest.mark.parametrize(
    ("strategy", "first_line", "picture", "gone"),
    [
        ("ours", "A", b"\0a", None),
        ("theirs", "B", b"\0b", "here\nmore\n"),
        ("merge", "<<<<<<< yours/", b"\0a", "here\nmore\n"),
        ("none", "A", b"\0a", None),
    ],
)
def test_the_parent_chooses_how_a_conflict_is_resolved(
    at_work: Fleet, files: Path, strategy: str, first_line: str, picture: bytes, gone: str | None
) -> None:
    merge = {"name": "MergeAgent", "input": {"agent_id": "bee", "strategy": strategy}}
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a"), agent("do b", name="bee")),
            rule("^lead$", 1, merge),
            rule("^lead$", 2),
            *CONFLICTING,
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert (files / "shared.txt").read_text().startswith(first_line) and (files / "picture.bin").read_bytes() == picture
    assert ((files / "picture.bin~theirs").exists()) == (strategy == "merge")
    assert gone == ((files / "gone.txt").read_text() if (files / "gone.txt").exists() else None)
    # What does not conflict is merged with every strategy but `none`.
    assert (files / "only-b").exists() == (strategy != "none")
    assert job.agents()[2].merge == ("left" if strategy == "none" else "merged")


def test_what_a_failed_agent_did_is_kept_and_can_be_taken_over(at_work: Fleet, files: Path) -> None:
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a", name="ay")),
            rule(
                "^lead$",
                1,
                {"name": "MergeAgent", "input": {"agent_id": "ay"}},
                last_result="kept and not merged. MergeAgent",
            ),
            rule("^lead$", 2),
            rule("^do a$", 0, bash("echo half > half-done")),
            {"when": {"prompt": "^do a$", "turn": 1}, "reply": {"text": "no", "stop_reason": "refusal"}},
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert job.agents()[1].state == "failed" and job.agents()[1].merge == "merged"
    assert (files / "half-done").read_text() == "half\n" and "A half-done" in results(at_work, job)[1]


def test_three_levels_hand_their_work_up_one_after_the_other(at_work: Fleet, files: Path) -> None:
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a")),
            rule("^lead$", 1),
            rule("^do a$", 0, bash("echo a > a; echo a >> new.txt")),
            rule("^do a$", 1, agent("do c")),
            rule("^do a$", 2, bash("cat c >> a; cat a new.txt > sum")),
            rule("^do a$", 3),
            *doing("do c", "cat a new.txt > c; rm gone.txt"),
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert (files / "sum").read_text() == "a\na\nuntracked\na\nuntracked\na\n" and not (files / "gone.txt").exists()
    assert {one.merge for one in job.agents()[1:]} == {"merged"}


def test_a_fork_in_a_copy_and_one_that_goes_on_after_it_was_merged(at_work: Fleet, files: Path) -> None:
    again = {"name": "Agent", "input": {"description": "more", "prompt": "go on", "agent_id": "ef"}}
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, bash("echo lead > said")),
            rule("^lead$", 1, agent("do f", fork=True, name="ef"), last_text="^lead$|exit code|said|done|.*"),
            rule("^lead$", 2, again, last_result="ef|merged"),
            rule("^lead$", 3, last_result="general"),
            rule(".*", 2, bash("cat said > forked; pwd >> forked"), last_text="do f"),
            rule(".*", 3, text="forked"),
            rule(".*", 4, bash("echo twice >> forked"), last_text="go on"),
            rule(".*", 5),
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    lines = (files / "forked").read_text().splitlines()
    assert (lines[0], lines[2]) == ("lead", "twice") and lines[1] != str(files)


def test_what_git_ignores_is_never_overwritten(at_work: Fleet, files: Path) -> None:
    (files / "ignored").mkdir()
    (files / "ignored/mine").write_text("mine")
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a"), agent("do b")),
            rule("^lead$", 1),
            *doing("do a", "test ! -e ignored && mkdir ignored && echo theirs > ignored/mine && rm .gitignore"),
            *doing("do b", "echo b > b"),
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert (files / "ignored/mine").read_text() == "mine" and (files / ".gitignore").exists() and (files / "b").exists()
    assert "are in the way" in results(at_work, job)[0] and "ignored/mine" in results(at_work, job)[0]


def test_a_folder_without_git_and_an_agent_in_the_background(at_work: Fleet) -> None:
    folder = at_work.workspace
    (folder / "text").write_text("1\n")
    server = at_work.rehearse(
        scenario(
            rule("^lead$", 0, agent("do a", run_in_background=True, name="ay")),
            rule("^lead$", 1, {"name": "WaitAgents", "input": {"timeout_seconds": 60}}),
            rule(
                "^lead$",
                2,
                {"name": "MergeAgent", "input": {"agent_id": "ay"}},
                last_text='not in yours. To take it over, call MergeAgent with ."agent_id": "agent-',
            ),
            rule("^lead$", 3),
            *doing("do a", "echo 2 >> text"),
        )
    )
    job = at_work.submit("lead", server)
    assert job.wait(60).state == "completed"
    assert (folder / "text").read_text() == "1\n2\n"


@pytest.fixture
def hubbed(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose files go through a hub, which is a folder."""
    with closing(Fleet(hub=str(tmp_path / "hub"), checkouts=tmp_path / "checkouts")) as fleet:
        fleet.start_worker(3)
        yield fleet


def test_through_a_hub_writers_are_merged_by_a_parent_on_another_host_and_readers_are_not(hubbed: Fleet) -> None:
    (hubbed.workspace / "text").write_text("1\n2\n3\n4\n5\n")
    host = hubbed.settings.checkouts_folder()
    server = hubbed.rehearse(
        scenario(
            rule("^lead$", 0, part("do a"), part("do b"), part("look", subagent_type="explore")),
            rule("^lead$", 1, bash("cat text > seen")),
            rule("^lead$", 2, part("do c")),
            rule("^lead$", 3),
            *doing("do a", "sed -i s/1/one/ text; echo a > a"),
            *doing("do b", "sed -i s/5/five/ text; echo b > b"),
            *doing("look", "cat text"),
            *doing("do c", "cat a b seen > c; echo C >> text"),
        )
    )
    job = hubbed.submit("lead", server)
    assert job.wait(60).state == "completed"
    agents = job.agents()
    assert [one.merge for one in agents] == ["", "merged", "merged", "", "merged"]
    left = host / agents[0].id / hubbed.workspace.name
    assert (left / "text").read_text() == "one\n2\n3\n4\nfive\nC\n"
    assert (left / "c").read_text() == "a\nb\none\n2\n3\n4\nfive\n"
    assert (hubbed.workspace / "text").read_text() == "1\n2\n3\n4\n5\n"
