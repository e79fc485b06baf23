"""`swarm agents`: what it lists, what it explains, and that it sees a changed file.

Tests of swarm/cli/context_view.py, swarm/cli/definitions.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm.cli.definitions import group
from swarm.core.errors import ConfigurationError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("SWARM_SANDBOX", "off")  # whether one works is found out by starting processes
    monkeypatch.chdir(folder)
    return folder


def swarm_agents(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments)


def define(project: Path, name: str, *lines: str) -> Path:
    path = project / ".claude" / "agents" / f"{name}.md"
    path.write_text("\n".join(("---", f"name: {name}", f"description: Is {name}.", *lines, "---", "Work.")))
    return path


def cells(ran: Result, name: str) -> list[str]:
    line = next(line for line in ran.stdout.splitlines() if line.startswith(f"{name} "))
    return re.split(r" {2,}", line.strip())


def test_each_type_is_listed_with_its_source_and_what_it_may_do(project: Path) -> None:
    define(project, "poet", "tools: Read, Edit", "permissionMode: acceptEdits")
    define(project, "quiet", "tools: [SendMessage]", "background: true")
    ran = swarm_agents()
    assert ran.exit_code == 0
    assert cells(ran, "poet") == [
        *("poet", "both", "(settings)", "write", "acceptEdits", "Read, Edit", "./.claude/agents/poet.md")
    ]
    assert cells(ran, "quiet")[3:5] == ["none", "default, background"]
    assert cells(ran, "explore")[:5] == ["explore", "both", "haiku", "read", "default"]
    assert cells(ran, "explore")[-1] == "shipped"


def test_what_is_hidden_wrong_or_understood_in_part_is_said_beside_the_list(project: Path) -> None:
    define(project, "explore", "tools: Read")
    define(project, "poet", "tools: Raed")
    (project / ".claude/agents/notes.md").write_text("Nothing.")
    ran = swarm_agents()
    assert ran.exit_code == 0
    assert ran.stderr.splitlines() == [
        "not trusted: the type explore, in place of the one that is shipped or your own (./.claude/agents/explore.md); "
        "`swarm trust` lets it count",
        "problem: ./.claude/agents/notes.md:1: it has no frontmatter. "
        "Begin the file with a `---` block that has `name` and `description`.",
        "1 of them understood only in part; `swarm agents check .claude/agents/poet.md` explains",
    ]


def test_a_change_of_a_file_is_seen_by_the_next_call(project: Path) -> None:
    define(project, "poet", "tools: Read")
    assert cells(swarm_agents(), "poet")[5] == "Read"
    define(project, "poet", "tools: Read, Grep")
    assert cells(swarm_agents(), "poet")[5] == "Read, Grep"


def test_a_check_names_file_line_and_remedy_and_counts(project: Path) -> None:
    define(project, "poet", "tools: Read, Grpe, AskUserQuestion, SlashCommand")
    define(project, "broken", "tools: [Read")
    (project / ".claude/agents/README.md").write_text("# Agents\n")
    ran = swarm_agents("check", ".")
    assert ran.exit_code == 1
    said = ran.stderr.splitlines()
    place = "./.claude/agents/poet.md: poet"
    assert f"warning: {place}: unknown tool 'Grpe' (did you mean 'Grep'?); kept, in case a worker offers it" in said
    assert f"note: {place}: AskUserQuestion is listed but withheld: no sub-agent has it" in said
    assert f"note: {place}: SlashCommand is listed but withheld: it is not offered here" in said
    assert any(line.startswith("problem: ./.claude/agents/broken.md") and "'[Read' in `tools`" in line for line in said)
    assert said[-1] == "1 can be used (1 understood only in part), 1 cannot"


def test_a_check_as_json_holds_everything(project: Path) -> None:
    path = define(project, "poet", "tools: Read, AskUserQuestion")
    ran = swarm_agents("check", str(path), "--json")
    assert ran.exit_code == 0
    (poet,) = json.loads(ran.stdout)["agents"]
    assert (poet["source"], poet["allowed_tools"]) == (str(path), ["Read"])
    assert poet["withheld_tools"] == {"AskUserQuestion": "no sub-agent has it"}


def test_a_folder_without_definitions_and_a_path_that_is_not_there_are_wrong_usage(project: Path) -> None:
    (project / ".claude/agents/README.md").write_text("# Agents\n")
    for path in (".git", ".claude/agents/README.md", "nowhere"):
        assert isinstance(swarm_agents("check", path).exception, ConfigurationError)


def test_the_context_of_each_type_is_counted_and_its_files_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_SANDBOX", "off")
    (project / "CLAUDE.md").write_text("Be kind.\n" * 100)
    (project / ".claude" / "rules").mkdir()
    (project / ".claude" / "rules" / "py.md").write_text("---\npaths: '**/*.py'\n---\nTyped.\n")
    ran = swarm_agents("--context", "--json")
    told = json.loads(ran.stdout)
    explore, worker = told["agents"]["explore"], told["agents"]["worker"]
    assert explore["instructions"] == 0 < 257 < worker["instructions"] < 600
    assert worker["tokens"] == sum(
        worker[part] for part in ("system", "tools", "instructions", "memory", "surroundings")
    )
    assert told["files"] == [{"name": "CLAUDE.md", "size": 900, "given": 900, "tokens": 258}]
    assert told["rules"] == [{"source": ".claude/rules/py.md", "globs": ["/**/*.py"]}]
    shown = swarm_agents("--context").stdout
    assert re.search(r"CLAUDE\.md +900 +900 +first", shown)
    assert "on reading /**/*.py" in shown
