"""`swarm run --isolation`, `swarm diff`, `swarm apply`: a job on a copy, from a shell.

Tests of swarm/cli/work.py, swarm/cli/first_task.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli_world import World
from tests.e2e.terminal import Terminal

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


OBEYED = """
name: obeyed
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo x > plain; echo obey > AGENTS.md; ln -s /etc outside"}}]}
  - reply: {text: done}
"""


def test_what_would_be_obeyed_comes_home_only_after_a_yes(stack: World, tmp_path: Path) -> None:
    scenario, folder = tmp_path / "obeyed.yaml", tmp_path / "folder"
    scenario.write_text(OBEYED)
    folder.mkdir()
    ran = stack.run(
        "run",
        "--isolation",
        "worktree",
        "--mode",
        "bypassPermissions",
        "--rehearse",
        str(scenario),
        "-w",
        str(folder),
        "go",
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"left out: AGENTS.md" in ran.stderr and b"left out: outside  (a link to /etc)" in ran.stderr
    assert [each.name for each in folder.iterdir()] == ["plain"]
    piped = stack.run("apply")
    assert piped.returncode == 0 and b"left out: AGENTS.md" in piped.stderr and b"--yes" in piped.stderr
    for answer, there in (("n", {"plain"}), ("y", {"plain", "AGENTS.md", "outside"})):
        terminal = Terminal(stack, "apply")
        shown = terminal.wait_for("[y]es")
        assert "AGENTS.md" in shown and "a link to /etc" in shown and len(list(folder.iterdir())) == 1
        terminal.type(f"{answer}\n")
        code, text = terminal.finish()
        assert code == 0, text
        assert {each.name for each in folder.iterdir()} == there
    for path in ("AGENTS.md", "outside"):
        (folder / path).unlink()


def test_a_flag_says_yes_where_nobody_can_be_asked(stack: World, tmp_path: Path) -> None:
    scenario, folder = tmp_path / "obeyed.yaml", tmp_path / "folder"
    scenario.write_text(OBEYED)
    folder.mkdir()
    ran = stack.run(
        "run",
        "--isolation",
        "worktree",
        "--mode",
        "bypassPermissions",
        "--rehearse",
        str(scenario),
        "-w",
        str(folder),
        "--quiet",
        "go",
    )
    assert ran.returncode == 0 and b"left out: AGENTS.md" in ran.stderr
    told = json.loads(stack.run("apply", "--json").stdout)
    assert set(told["left_out"]) == {"AGENTS.md", "outside"}
    told = json.loads(stack.run("apply", "--yes", "--json").stdout)
    assert set(told["changed"]) == {"AGENTS.md", "outside"} and not told["left_out"]
    assert (folder / "AGENTS.md").read_text() == "obey\n"


PROPOSED = """
name: proposed
rules:
  - when: {definition: improver, turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo two >> text"}}]}
  - reply: {text: "text lacked its second line"}
"""


def test_a_first_task_shows_its_proposal_and_leaves_the_folder_alone(stack: World, tmp_path: Path) -> None:
    (stack.workspace / "text").write_text("one\n")
    scenario = tmp_path / "proposed.yaml"
    scenario.write_text(PROPOSED)
    ran = stack.run("try", "--rehearse", str(scenario), "-w", str(stack.workspace))
    told = ran.stderr.decode()
    assert ran.returncode == 0, told
    assert b"text lacked its second line" in ran.stdout and b"@@ -1 +1,2 @@\n one\n+two\n" in ran.stdout
    assert (stack.workspace / "text").read_text() == "one\n"
    assert "improver" in told and "of at most $0.50" in told and "nothing is changed" in told and "swarm apply" in told
    job = json.loads(stack.run("jobs", "--json").stdout)[0]
    # The person takes the proposal over.
    assert stack.run("apply", job["job_id"]).returncode == 0
    assert (stack.workspace / "text").read_text() == "one\ntwo\n"
