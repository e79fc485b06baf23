"""What children did on other hosts, merged by their parent, and brought home. Each host has its own checkouts; all meet at the hub.

Tests of swarm/runtime/workspace_sync.py, swarm/workspace/merge.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm import Job
from swarm.agent.entries import Mail, ToolFinished
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.needs import need_program
from tests.waiting import wait_for


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """Where the checkouts of two hosts lie; to their workers both are at the same path."""
    return [tmp_path / "left", tmp_path / "right"]


@pytest.fixture
def apart(tmp_path: Path, hosts: list[Path]) -> Iterator[Fleet]:
    """A hub, two workers of one process each that share nothing else, and a person who has neither's checkouts."""
    need_program("git")
    with closing(Fleet(hub=str(tmp_path / "hub"), checkouts=tmp_path / "checkouts")) as fleet:
        for host in hosts:
            fleet.begin_worker(1, checkouts=host)
        for worker in fleet.workers:
            worker.wait_ready()
        yield fleet


def agent(name: str, **given: Any) -> dict[str, Any]:
    return {"name": "Agent", "input": {"description": "part", "prompt": f"be {name}", "name": name, **given}}


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"name": tool, "input": given}


def rule(prompt: str, turn: int, *tools: dict[str, Any], **when: Any) -> dict[str, Any]:
    """What is said in one turn of whoever has this prompt."""
    reply: dict[str, Any] = {"tools": list(tools)} if tools else {"text": "done"}
    return {"when": {"prompt": f"^{prompt}$", "turn": turn, **when}, "reply": reply}


def work(name: str, command: str) -> list[dict[str, Any]]:
    """An agent that runs one command, once somebody lets it, and is done."""
    held = f"until [ -e go ]; do sleep 0.05; done; {command}"
    return [rule(f"be {name}", 0, call("Bash", command=held)), rule(f"be {name}", 1)]


def let_go(job: Job, hosts: list[Path], *names: str) -> None:
    """Let these agents work once all of them run at the same time; as each host runs one agent at a time, each is on another one."""

    def find() -> list[Path] | None:
        running = {one.name: one.id for one in job.agents() if one.state == "running"}
        places = [host / running[name] / "workspace" for name in names if name in running for host in hosts]
        there = [place for place in places if place.is_dir()]
        return there if len(there) == len(names) else None

    there = wait_for(f"{names} run", find, 30)
    assert {place.parents[1] for place in there} == set(hosts)
    for place in there:
        (place / "go").touch()


def git(folder: Path, *arguments: str) -> str:
    named = ["git", "-c", "user.name=p", "-c", "user.email=p@x", *arguments]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


def swarm(fleet: Fleet, *arguments: str) -> str:
    """Run the command as the person, and return what it prints."""
    ran = subprocess.run(
        [prepared_swarm(), *arguments],
        cwd=fleet.folder,
        env={**fleet.environment(), "SWARM_REDIS_URL": fleet.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def results(fleet: Fleet, job: Job) -> list[str]:
    journal = fleet.swarm.journal(job.view().root_id)
    return [entry.text for entry in journal if isinstance(entry, ToolFinished)]


def test_work_of_other_hosts_is_merged_its_conflict_resolved_and_all_of_it_brought_home(
    apart: Fleet, hosts: list[Path]
) -> None:
    folder = apart.workspace
    (folder / ".gitignore").write_text("go\n")
    (folder / "text").write_text("one\ntwo\nthree\nfour\nfive\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    rules = [
        rule("lead", 0, agent("ay"), agent("bee")),
        rule("lead", 1, agent("cee"), agent("dee")),
        rule("lead", 2, call("MergeAgent", agent_id="dee", strategy="theirs"), last_result="NOT merged"),
        rule("lead", 3),
        *work("ay", "sed -i s/one/ONE/ text; echo a > a"),
        *work("bee", "sed -i s/five/FIVE/ text; echo b > b"),
        *work("cee", "sed -i s/three/C/ text; cat a b > c"),
        *work("dee", "sed -i s/three/D/ text; echo d > d"),
    ]
    job = apart.submit("lead", apart.rehearse(yaml.safe_dump({"name": "apart", "rules": rules})))
    let_go(job, hosts, "ay", "bee")
    let_go(job, hosts, "cee", "dee")
    assert job.wait(60).state == "completed", job.view().reason
    children = job.agents()[1:]
    ay, bee, cee, dee, resolved = results(apart, job)
    assert "A a" in ay and "M text" in ay and "merged into your folder" in bee and "merged into your folder" in cee
    assert f"Call MergeAgent (agent_id {children[3].id})" in dee and "text: both changed it\n<<<<<<< yours/" in dee
    assert "\nC\n|||||||" in dee and "\n=======\nD\n>>>>>>> theirs/" in dee
    assert "the agent's version was taken" in resolved and "A d" in resolved
    assert {one.merge for one in children} == {"merged"}
    # The person has none of it until it is asked for.
    assert sorted(os.listdir(folder)) == [".git", ".gitignore", "text"]
    shown = swarm(apart, "diff", job.id)
    assert "-three\n" in shown and "+D\n" in shown and "5 files changed" in swarm(apart, "diff", "--stat", job.id)
    assert swarm(apart, "apply", "--branch", job.id).strip() == f"swarm/{job.id}"
    merged = "ONE\ntwo\nD\nfour\nFIVE\n"
    assert git(folder, "show", f"swarm/{job.id}:text") == merged and not (folder / "a").exists()
    assert git(folder, "log", "--format=%s", f"swarm/{job.id}").split("\n")[:2] == ["lead", "first"]
    (folder / "mine").write_text("mine\n")
    assert swarm(apart, "apply", job.id).split("\n")[:5] == ["A a", "A b", "A c", "A d", "M text"]
    assert (folder / "text").read_text() == merged and (folder / "c").read_text() == "a\nb\n"
    assert (folder / "mine").exists() and git(folder, "status", "--porcelain", "text") == " M text\n"


@pytest.mark.long
def test_the_notice_of_an_agent_in_the_background_names_the_call_that_brings_its_work_from_its_host(
    apart: Fleet, hosts: list[Path]
) -> None:
    (apart.workspace / ".gitignore").write_text("go\n")
    rules = [
        rule("lead", 0, agent("kay", run_in_background=True)),
        rule("lead", 1, call("Bash", command="until [ -e go ]; do sleep 0.05; done; ls")),
        rule("lead", 2, call("MergeAgent", agent_id="kay"), last_text="call MergeAgent with"),
        rule("lead", 3),
        *work("kay", "echo k > k"),
    ]
    job = apart.submit("lead", apart.rehearse(yaml.safe_dump({"name": "apart", "rules": rules})))
    root = job.view().root_id
    places = [host / root / "workspace" for host in hosts]
    place = wait_for("its parent works", lambda: next((one for one in places if one.is_dir()), None), 30)
    # The parent holds the one process of its host, so the child runs on the other one.
    let_go(job, [host for host in hosts if host != place.parents[1]], "kay")
    kay = job.agents()[1].id
    apart.wait_state(kay, "completed")
    assert apart.swarm.agent(kay).merge == ""
    (place / "go").touch()
    assert job.wait(60).state == "completed", job.view().reason
    [told] = [entry.text for entry in apart.swarm.journal(root) if isinstance(entry, Mail)]
    assert f'To take it over, call MergeAgent with {{"agent_id": "{kay}"}}.' in told
    started, looked, merged = results(apart, job)
    assert kay in started and "k" not in looked.split() and "A k" in merged
    assert apart.swarm.agent(kay).merge == "merged"
