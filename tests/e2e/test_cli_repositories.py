"""`swarm run --repo`: from a path to a pushed branch, from a shell.

Tests of swarm/cli/run.py, swarm/cli/work.py, swarm/client/repositories.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli_world import World
from tests.forge_world import git

SCENARIO = """
name: alone
rules:
  - when: {prompt: nothing, turn: 0}
    reply: {text: nothing}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo two >> text"}}]}
  - reply: {text: done}
"""


def test_a_repository_is_worked_on_without_a_checkout_and_gets_a_branch(stack: World, tmp_path: Path) -> None:
    scenario, bare = tmp_path / "alone.yaml", tmp_path / "project.git"
    scenario.write_text(SCENARIO)
    git(tmp_path, "init", "-q", "-b", "main", "clone")
    (tmp_path / "clone/text").write_text("one\n")
    git(tmp_path / "clone", "add", "-A")
    git(tmp_path / "clone", "commit", "-q", "-m", "first")
    git(tmp_path, "clone", "-q", "--bare", "clone", str(bare))
    given = ("run", "--repo", f"{bare}@main", "--rehearse", str(scenario))
    ran = stack.run(*given, "--branch", "work", "go")
    assert ran.returncode == 0 and ran.stdout == b"done\n", ran.stderr.decode()
    assert b"the work is in the branch work" in ran.stderr
    assert git(bare, "show", "work:text") == "one\ntwo\n"
    described = json.loads(stack.run("jobs", "--json").stdout)[0]
    assert (described["branch"], described["workspace"]) == ("work", f"{bare.as_uri()}@main")
    assert b"no file was changed" in stack.run(*given, "nothing").stderr
    for words, why in {
        ("--repo", f"{bare}@none", "go"): b"has no branch, tag or full commit id none",
        ("--repo", str(tmp_path / "missing.git"), "go"): b"is not there, or not for this worker: check the path",
        ("--repo", str(bare), "--pr", "go"): b"is a path, which has no pull requests",
        ("--repo", str(bare), "-w", str(tmp_path), "go"): b"give one of --repo and --workspace",
        ("--pr", "go"): b"statuses; name it with --repo",
    }.items():
        ran = stack.run("run", *words)
        assert ran.returncode == 2 and why in ran.stderr and ran.stderr.count(b"\n") == 1, ran.stderr.decode()
    ran = stack.run("send", described["job_id"], "--review")
    assert ran.returncode == 2 and b"has no pull request" in ran.stderr
