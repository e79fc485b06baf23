"""A corpus of awkward definition files: each is loaded, loaded with warnings, or refused, as written here.

Tests of swarm/definitions/codex.py, swarm/definitions/fields.py, swarm/definitions/frontmatter.py, swarm/definitions/key_readers.py,
swarm/definitions/keys.py, swarm/definitions/markdown.py, swarm/definitions/model.py, swarm/definitions/opencode.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swarm.definitions.catalogue import check_path
from swarm.definitions.mcp.servers import Server
from swarm.definitions.sources import ReadResult

CORPUS = Path(__file__).parent / "corpus" / "definitions"


@dataclass
class Loaded:
    """The file gives one definition with these values, and a warning that contains each of these texts."""

    values: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


@dataclass
class Refused:
    """The file gives no definition and one problem, with this text, at this line."""

    message: str
    line: int | None = None


@dataclass
class Disabled:
    """The file switches this name off."""

    name: str


EVERYTHING: dict[str, Any] = {"tools": None, "disallowed_tools": []}
EDITING = ["Edit", "Write", "NotebookEdit"]
KEY_BY_KEY = "read key by key"

EXPECTED: dict[str, Loaded | Refused | Disabled] = {
    "claude/plain.md": Loaded({"name": "plain", "model": "sonnet", "tools": ["Read", "Grep", "Bash(git log:*)"]}),
    "claude/windows-line-ends.md": Loaded(
        {"name": "windows", "prompt": "First line.\nSecond line.", "tools": ["Read"]}
    ),
    "claude/byte-order-mark.md": Loaded({"name": "marked", **EVERYTHING}),
    "claude/unquoted-colon.md": Loaded(
        {
            "name": "colon",
            "tools": ["Read", "Bash"],
            "description": "Use this agent when: tests fail. Examples: "
            'user: "it is red" assistant: "I will look"\nAlways: be exact',
        },
        [KEY_BY_KEY],
    ),
    "claude/tabs.md": Loaded(
        {"name": "tabbed", "description": "Indented with tabs.", "tools": ["Read", "Grep"]}, [KEY_BY_KEY]
    ),
    "claude/description-over-lines.md": Loaded(
        {
            "name": "wordy",
            "model": "opus",
            "description": "Use this agent for releases: it knows the steps. Context: a release is due. "
            "<example>the person says so</example>",
        },
        [KEY_BY_KEY],
    ),
    "claude/all-tools-star.md": Loaded({"name": "star", **EVERYTHING}, [KEY_BY_KEY]),
    "claude/star-in-list.md": Loaded({"name": "starlist", **EVERYTHING}, [KEY_BY_KEY]),
    "claude/bracketed-patterns.md": Loaded(
        {"tools": ["Read", "Bash(git log:*, git diff:*)", "Agent(explore, plan)"]},
    ),
    "claude/no-name.md": Loaded({"name": "no-name"}, ["no `name`"]),
    "claude/no-description.md": Loaded({"description": "Fixes typos"}, ["no `description`"]),
    "claude/every-documented-key.md": Loaded(
        {
            "name": "full",
            "tools": ["Read", "Write"],
            "disallowed_tools": ["WebFetch", "mcp__slack"],
            "model": "claude-opus-5-5",
            "permission_mode": "acceptEdits",
            "max_turns": 12,
            "background": True,
            "effort": "high",
            "isolation": "worktree",
            "servers": [
                Server(
                    name="github",
                    transport="stdio",
                    command="gh-mcp",
                    scope="definition",
                    source=str(CORPUS / "claude/every-documented-key.md"),
                )
            ],
        },
        ["effect: `initialPrompt`"],
    ),
    "claude/kinds.md": Loaded(
        {"kind": "remote", "timeout_seconds": 90.0, "isolation": "worktree"},
        ["unknown `isolation` 'container'; 'worktree' is used"],
    ),
    "claude/unknown-tool.md": Loaded({"tools": ["Raed", "Grep"]}, ["unknown tool 'Raed' (did you mean 'Read'?)"]),
    "claude/unknown-key.md": Loaded({"disallowed_tools": []}, ["`disalowedTools` (did you mean 'disallowedTools'?)"]),
    "claude/foreign-model.md": Loaded({"model": "inherit"}, ["'openai/gpt-5' is not available"]),
    "claude/spaces-in-name.md": Loaded({"name": "Frontend-Developer"}, ["is written 'Frontend-Developer'"]),
    "claude/empty-tools.md": Loaded({"tools": None}, ["`tools` is empty"]),
    "claude/no-tools-at-all.md": Loaded({"tools": []}),
    "claude/rule-inside-body.md": Loaded({"prompt": "First part.\n\n---\n\nSecond part."}),
    "claude/bad-turns.md": Loaded(
        {"max_turns": None, "permission_mode": "default", "effort": None},
        ["`maxTurns` is 'many'", "unknown `permissionMode` 'yolo'", "unknown `effort` 'heroic'"],
    ),
    "claude/name-in-another-script.md": Loaded(
        {"name": "name-in-another-script"}, ["is written 'name-in-another-script' here"]
    ),
    "claude/punctuation-in-name.md": Loaded({"name": "C-Rust-expert-senior"}, ["is written 'C-Rust-expert-senior'"]),
    "claude/every-tool-in-a-word.md": Loaded({**EVERYTHING}),
    "claude/notes-of-ones-own.md": Loaded({"tools": ["Read"]}),
    "claude/tools-of-other-systems.md": Loaded(
        {
            "tools": [
                *("BoardAdd", "BoardList", "BoardUpdate", "StopAgent", "Agent", "SendMessage", "WaitAgents"),
                *("ReadAgent", "Edit", "SlashCommand", "Skill"),
            ]
        },
    ),
    "claude/auto-mode.md": Loaded({"permission_mode": "auto", "disallowed_tools": ["Skill", "LSP"]}, []),
    "claude/conversation-in-description.md": Loaded(
        {
            "name": "conversing",
            "tools": ["Read", "Grep"],
            "description": "Use this agent when a release is due: it knows the steps. Examples: <example> Context: The person asks "
            'for a release. user: "Please release it" assistant: "I will use the conversing agent" <commentary> It is about a '
            'release: that is its matter. </commentary> user: "And the notes?" </example>',
        },
        [KEY_BY_KEY],
    ),
    "claude/tools-with-slashes.md": Loaded(
        {"tools": ["Edit", "Glob", "WebFetch", "docs.mcp/*", "Bash", "acme/other_tool"]},
        ["unknown tools, kept in case a worker offers them: 'docs.mcp/*', 'acme/other_tool'"],
    ),
    "claude/only-servers.md": Loaded(
        {"tools": ["mcp__images__make", "mcp__search", "SlashCommand"], "servers": [], "shared_servers": []},
    ),
    "claude/prompt-before-the-end.md": Refused("'Say what you found:' is no `key: value` line", 9),
    "claude/rule-instead-of-frontmatter.md": Refused("'**Version:** 3' is no `key: value` line", 5),
    "claude/colon-in-name.md": Refused("'team:lead' cannot be a name"),
    "claude/leading-dash.md": Refused("'-dash' cannot be a name"),
    "claude/empty.md": Refused("the file is empty", 1),
    "claude/no-frontmatter.md": Refused("no frontmatter", 1),
    "claude/unclosed.md": Refused("not closed", 1),
    "claude/not-a-mapping.md": Refused("has no keys", 2),
    "claude/no-prompt.md": Refused("no prompt"),
    "claude/tools-are-a-number.md": Refused("an entry of `tools` is 7"),
    "claude/unbalanced-pattern.md": Refused("'Bash(git log' in `tools`"),
    "claude/tools-twice.md": Refused("written twice"),
    "claude/broken-line.md": Refused("'this line says nothing' is no `key: value` line", 5),
    "claude/latin-1.md": Refused("not UTF-8", 3),
    "claude/utf-16.md": Refused("UTF-16", 1),
    "claude/alias-bomb.md": Refused("`resultSchema` is not valid YAML", 6),
    "claude/python-tag.md": Refused("`readOnly` is '!!python"),
    "claude/maybe-read-only.md": Refused("`readOnly` is 'mostly'"),
    "opencode/agent/reviewer.md": Loaded(
        {
            "name": "reviewer",
            "mode": "subagent",
            "model": "claude-haiku-5-5",
            "max_turns": 9,
            "tools": None,
            "disallowed_tools": ["github_*", *EDITING, "Bash"],
        },
        ["'github_*'"],
    ),
    "opencode/agent/nested/security.md": Loaded(
        {
            "mode": "all",
            "tools": None,
            "disallowed_tools": [*EDITING, "WebFetch"],
            "permission": [
                ("edit", "*", "deny"),
                ("bash", "*", "ask"),
                ("bash", "git push*", "deny"),
                ("bash", "git status", "allow"),
                ("webfetch", "*", "deny"),
            ],
        },
    ),
    "opencode/agent/narrow.md": Loaded(
        {"tools": ["Read", "Grep", "Bash"], "disallowed_tools": []},
    ),
    "opencode/agent/plan.md": Loaded(
        {"name": "plan", "model": "claude-opus-5-5", "read_only": True}, ["changes the shipped 'plan' in part"]
    ),
    "opencode/agent/no-frontmatter.md": Loaded(
        {"name": "no-frontmatter", "description": "Reviewer", "prompt": "# Reviewer\n\nReview what you are shown."},
        ["no frontmatter", "no `description`"],
    ),
    "opencode/agent/copilot.md": Loaded(
        {"model": "sonnet", "disallowed_tools": EDITING},
        ["another provider's; 'sonnet' is used", "`fallback_models`"],
    ),
    "opencode/agent/stray-indent.md": Refused("`tools` is not valid YAML", 8),
    "opencode/mode/architect.md": Loaded({"name": "architect", "mode": "primary", "disallowed_tools": EDITING}),
    "opencode/agent/off.md": Disabled("off"),
    "opencode/agent/odd-action.md": Refused("the permission of 'edit' for '*' is 'perhaps'"),
    "opencode/agent/broken-permission.md": Refused("`permission` is not valid YAML", 5),
    "opencode/broken.json": Refused("not valid JSON", 3),
    "codex/agents/reviewer-role.toml": Loaded(
        {"read_only": True, "effort": "high", "model": "inherit", "prompt": "Look for defects."},
        ["no `name`", "'gpt-5-codex' is not available"],
    ),
    "codex/agents/tracer.toml": Loaded(
        {"name": "tracer", "read_only": False}, ["`approval_policy` 'never' is not supported"]
    ),
    "codex/agents/everything.toml": Loaded(
        {"model": "inherit", "effort": "low", "prompt": 'Work with "quotes" and \\backslashes\\.'},
        [
            *("`effort` 'minimal'", "`sandbox_mode` 'True'", "unknown and without effect: `tui`"),
            "effect: `features`",
            "`skills` is not a list of names",
        ],
    ),
    "codex/agents/nameless.toml": Loaded({"name": "nameless"}, ["no `name`", "'danger-full-access' is not supported"]),
    "codex/agents/no-instructions.toml": Refused("no `developer_instructions`"),
    "codex/agents/broken.toml": Refused("not valid TOML", 2),
    "codex/agents/foreign-keys.toml": Loaded(
        {"tools": None, "mode": "all"}, ["without effect in a role: `tools`, `mode`"]
    ),
}

SEVERAL_IN_ONE = {"opencode/opencode.jsonc", "opencode/whole-project.json", "codex/config.toml"}


@pytest.mark.parametrize("file", sorted(EXPECTED))
def test_a_file_of_the_corpus_is_read_as_expected(file: str) -> None:
    result = check_path(CORPUS / file)
    match EXPECTED[file]:
        case Loaded(values, warnings):
            assert result.problems == []
            (definition,) = result.definitions
            assert {key: getattr(definition, key) for key in values} == values
            assert definition.source == str(CORPUS / file)
            assert len(definition.warnings) >= len(warnings)
            for text in warnings:
                assert any(text in warning for warning in definition.warnings), definition.warnings
            if not warnings:
                assert definition.warnings == []
        case Refused(message, line):
            assert result.definitions == []
            (problem,) = result.problems
            assert message in problem.message
            assert problem.line == line
            assert problem.path == str(CORPUS / file) and problem.remedy
        case Disabled(name):
            assert result == ReadResult(disabled={name: str(CORPUS / file)})


def test_every_file_of_the_corpus_has_an_expectation() -> None:
    files = {
        path.relative_to(CORPUS).as_posix()
        for path in CORPUS.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.parent.name != "prompts"
    }
    assert files == set(EXPECTED) | SEVERAL_IN_ONE


def test_one_configuration_of_opencode_gives_its_good_agents_and_a_problem_for_each_bad_one() -> None:
    result = check_path(CORPUS / "opencode" / "opencode.jsonc")
    found = {definition.name: definition for definition in result.definitions}
    assert set(found) == {"docs", "explore", "secret"}
    assert found["docs"].prompt == "Write the documentation."
    assert found["docs"].tools == ["Read", "Write"]
    assert found["docs"].description.endswith("http://example.invalid/a//b /* not a comment */")
    assert found["docs"].warnings == []
    assert found["explore"].model == "claude-sonnet-5-5" and found["explore"].read_only
    assert "{env:API_KEY}" in found["secret"].prompt and "is not replaced" in found["secret"].warnings[-1]
    assert set(result.disabled) == {"old"}
    thief, lost, text = (problem.message for problem in result.problems)
    assert "'thief'" in thief and "lies outside the project" in thief
    assert "'lost'" in lost and "cannot be read" in lost
    assert "'text'" in text and "not a table" in text


def test_one_configuration_of_codex_gives_its_good_roles_and_a_problem_for_each_bad_one() -> None:
    result = check_path(CORPUS / "codex" / "config.toml")
    found = {definition.name: definition for definition in result.definitions}
    assert set(found) == {"reviewer", "helper"}
    assert found["reviewer"].description == "Finds defects." and found["reviewer"].read_only
    assert found["reviewer"].prompt == "Look for defects."
    assert not any("`nickname_candidates`" in warning for warning in found["reviewer"].warnings)
    assert result.max_depth == 1
    assert "general-purpose" in found["helper"].warnings[0]
    (problem,) = result.problems
    assert "lies outside the project" in problem.message


def test_what_a_configuration_of_opencode_says_for_all_holds_where_an_agent_says_nothing_else() -> None:
    result = check_path(CORPUS / "opencode" / "whole-project.json")
    assert result.problems == []
    found = {definition.name: definition for definition in result.definitions}
    assert set(found) == {"lead", "builder", "general", "architect"}
    assert set(found["lead"].disallowed_tools) == {*EDITING, "Bash"}
    assert found["builder"].disallowed_tools == []
    assert found["architect"].mode == "primary" and "Bash" in found["architect"].disallowed_tools
    assert any("write {file:…} around it" in warning for warning in found["lead"].warnings)
    assert found["general"].model == "claude-opus-5-5"
    assert any("changes the shipped 'general-purpose' in part" in warning for warning in found["general"].warnings)
