"""`swarm run --isolation`, `swarm diff`, `swarm apply`: a job on a copy, from a shell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli_world import World

SCENARIO = """
name: alone
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo two >> text"}}]}
  - reply: {text: done}
"""


def test_an_attached_job_on_a_copy_is_taken_over_and_can_be_looked_at_after(stack: World, tmp_path: Path) -> None:
    (stack.workspace / "text").write_text("one\n")
    scenario = tmp_path / "alone.yaml"
    scenario.write_text(SCENARIO)
    ran = stack.run("run", "--isolation", "worktree", "--rehearse", str(scenario), "-w", str(stack.workspace), "go")
    assert ran.returncode == 0, ran.stderr.decode()
    assert (stack.workspace / "text").read_text() == "one\ntwo\n" and b"1 file changed in" in ran.stderr
    shown = stack.run("diff")
    assert b"@@ -1 +1,2 @@\n one\n+two\n" in shown.stdout, shown.stderr.decode()
    # Undone by the person, it is not forced on them again; asked for as data, it says what there is to do.
    (stack.workspace / "text").write_text("uno\n")
    told = json.loads(stack.run("apply", "--dry-run", "--json").stdout)
    assert told["changed"] == {} and told["folder"] == str(stack.workspace)
    branch = stack.run("apply", "--branch")
    assert branch.returncode == 2 and b"no Git repository" in branch.stderr
