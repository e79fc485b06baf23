"""MCP servers as the configurations of four systems have them, and what of it holds in a workspace.

Tests of swarm/cli/mcp.py, swarm/definitions/mcp/writer.py, swarm/definitions/mcp/formats.py, swarm/definitions/mcp/reader.py,
swarm/permissions/definition_rules.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm.cli.mcp import group
from swarm.core.errors import ConfigurationError
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.mcp.formats import Dialect, Unreadable, read_entry
from swarm.definitions.mcp.reader import explain_absent, load_servers
from swarm.definitions.mcp.servers import Server
from swarm.permissions.definition_rules import definition_rules, server_rules


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    workspace, home = tmp_path / "work", tmp_path / "home"
    for folder in (workspace, home):
        folder.mkdir()
    return workspace, home


@pytest.mark.parametrize(
    ("dialect", "entry", "expected"),
    [
        (
            "claude",
            {"command": "npx", "args": ["-y", "files", 3], "env": {"KEY": "${KEY}"}, "timeout": 5_000},
            {"command": "npx", "args": ("-y", "files", "3"), "env": {"KEY": "${KEY}"}, "call_seconds": 5.0},
        ),
        (
            "claude",
            {
                "type": "http",
                "url": "https://x.example/mcp",
                "headers": {"Authorization": "Bearer ${T}"},
                "alwaysLoad": True,
            },
            {"transport": "http", "url": "https://x.example/mcp", "always_load": True},
        ),
        ("claude", {"type": "sse", "url": "${URL:-http://localhost:1}/sse"}, {"transport": "sse"}),
        (
            "codex",
            {
                **{
                    "command": "docs",
                    "env_vars": ["TOKEN"],
                    "cwd": "/srv",
                    "startup_timeout_sec": 7,
                    "tool_timeout_sec": 9,
                },
                **{"enabled_tools": ["find"], "disabled_tools": ["drop"], "required": True},
                **{"default_tools_approval_mode": "prompt", "tools": {"find": {"approval_mode": "approve"}}},
            },
            {
                **{
                    "env": {"TOKEN": "${TOKEN}"},
                    "cwd": "/srv",
                    "start_seconds": 7.0,
                    "call_seconds": 9.0,
                    "required": True,
                },
                **{"tools": ("find",), "without": ("drop",), "approvals": {"*": "ask", "find": "allow"}},
            },
        ),
        (
            "codex",
            {"url": "https://x.example", "bearer_token_env_var": "T", "env_http_headers": {"X-Who": "WHO"}},
            {"transport": "http", "headers": {"X-Who": "${WHO}", "Authorization": "Bearer ${T}"}},
        ),
        (
            "opencode",
            {"type": "local", "command": ["bun", "x", "mem"], "environment": {"A": "{env:A}"}, "timeout": 500},
            {"command": "bun", "args": ("x", "mem"), "env": {"A": "${A:-}"}, "start_seconds": 0.5},
        ),
        ("opencode", {"type": "remote", "url": "https://x.example"}, {"transport": "http"}),
    ],
)
def test_every_format_means_the_same_server(dialect: Dialect, entry: Any, expected: dict[str, Any]) -> None:
    found = read_entry("one", entry, dialect)
    assert found.server is not None and found.notes == []
    assert {name: getattr(found.server, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("npx files", "not a table"),
        ({}, "neither a `command` nor a `url`"),
        ({"type": "ws", "url": "wss://x"}, "type 'ws' is not supported"),
        ({"url": "file:///etc"}, "no http or https URL"),
        ({"command": "x", "args": "a b"}, "`args` is not a list"),
        ({"command": "x", "env": {"A": None}}, "`env` is not a table of texts"),
        ({"command": "x", "timeout": -1}, "`timeout` is not a positive number"),
        ({"command": "x\0y"}, "null character"),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(entry: Any, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_entry("one", entry, "claude")


def test_what_is_not_understood_is_named_and_an_entry_can_switch_off() -> None:
    found = read_entry(
        "one", {"url": "https://x", "oauth": {"xaa": 1}, "headersHelper": "x", "description": "d"}, "claude"
    )
    assert found.notes == ["without effect here: `headersHelper`, `oauth.xaa`"]
    assert read_entry("one", {"command": "x", "enabled": False}, "opencode").server is None
    with pytest.raises(Unreadable, match="not read here"):
        read_entry("one", {"type": "local", "command": ["x"], "environment": {"A": "{file:~/key}"}}, "opencode")


def test_what_a_repository_names_holds_only_once_it_is_approved_as_it_is(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(workspace / ".mcp.json", {"mcpServers": {"git": {"command": "mcp-git"}, "bad": 1}})
    write(workspace / ".codex/config.toml", '[mcp_servers.docs]\nurl = "https://d.example"\n')
    write(workspace / "opencode.json", '{"mcp": {"mem": {"type": "local", "command": ["mem"]},}} // mine')
    write(home / ".claude.json", {"mcpServers": {"git": {"command": "own-git"}}, "projects": {}})
    before = load_servers(workspace, home)
    assert [(one.name, one.command) for one in before.servers] == [("git", "own-git")]
    assert {one.name for one in before.untrusted} == {"git", "docs", "mem"}
    assert "start the MCP server git: mcp-git" in [grant.text for grant in before.grants]
    assert ["'bad'" in str(problem) for problem in before.problems] == [True]
    after = load_servers(workspace, home, trusted=True)
    assert [(one.name, one.scope) for one in after.servers] == [(name, "project") for name in ("docs", "git", "mem")]
    write(workspace / ".mcp.json", {"mcpServers": {"git": {"command": "mcp-git", "args": ["--push"]}}})
    assert set(load_servers(workspace, home).grants) != set(before.grants)


def test_opencode_2_names_its_servers_below_a_key_of_their_own(places: tuple[Path, Path]) -> None:
    workspace, home = places
    servers = {
        "new": {"type": "remote", "url": "https://x.example"},
        "off": {"type": "local", "command": ["x"], "disabled": True},
    }
    table = {"servers": servers, "timeout": {"catalog": 5}, "old": {"type": "local", "command": ["y"]}}
    write(home / ".config/opencode/opencode.json", json.dumps({"mcp": table}))
    found = load_servers(workspace, home)
    assert ([one.name for one in found.servers], found.off, found.problems) == (["new", "old"], ("off",), ())


def test_the_persons_own_entry_for_the_workspace_comes_first_and_refusals_need_no_trust(
    places: tuple[Path, Path],
) -> None:
    workspace, home = places
    write(workspace / ".mcp.json", {"git": {"command": "theirs"}, "web": {"command": "w"}, "sql": {"command": "s"}})
    own = {"mcpServers": {"git": {"command": "mine"}}, "disabledMcpjsonServers": ["web"]}
    write(home / ".claude.json", {"projects": {str(workspace): own}})
    write(workspace / ".claude/settings.json", {"deniedMcpServers": [{"serverName": "sql"}]})
    found = load_servers(workspace, home, trusted=True)
    assert [one.command for one in found.servers] == ["mine"]
    assert set(found.off) == {"web", "sql"}


def test_a_definition_is_loaded_without_a_warning_where_its_servers_are_there(places: tuple[Path, Path]) -> None:
    workspace, home = places
    head = "---\nname: a\ndescription: d\ntools: Read, mcp__git__log, mcp__web__*\n"
    write(workspace / ".claude/agents/a.md", head + "mcpServers:\n  - mem\n  - web: {command: w}\n---\nWork.")
    write(home / ".config/swarm/mcp.json", {"mcpServers": {"mem": {"command": "m"}}})
    catalogue = load_catalogue(workspace, home)
    definition = catalogue.get("a")
    assert definition.warnings == [] and definition.servers == []
    assert explain_absent(definition, load_servers(workspace, home), catalogue.unapproved) == (
        f"it goes without MCP servers that it names: not approved: web ({workspace}/.claude/agents/a.md); `swarm trust` approves "
        "them; not configured: git; `swarm mcp add` does that"
    )
    write(workspace / ".mcp.json", {"mcpServers": {"git": {"command": "g"}}})
    trusted = load_catalogue(workspace, home, trusted=True).get("a")
    assert [one.name for one in trusted.servers] == ["web"] and trusted.shared_servers == ["mem"]
    assert explain_absent(trusted, load_servers(workspace, home, trusted=True)) == ""


def test_what_a_configuration_says_of_calls_becomes_rules() -> None:
    server = Server(name="d b", transport="stdio", command="x", approvals={"*": "ask", "find": "allow", "list": "auto"})
    rules = {(rule.action, rule.text, rule.unless) for rule in server_rules([server]).rules}
    assert rules == {
        ("ask", "mcp__d_b__*", ("mcp__d_b__find", "mcp__d_b__list")),
        ("allow", "mcp__d_b__find", ()),
    }
    definition = load_catalogue(None).get("build").model_copy(update={"servers": [server]})
    assert {rule.action for rule in definition_rules(definition).rules} == {"ask"}


def test_a_server_is_added_listed_and_approved_from_the_command_line(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, home = places
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SWARM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SWARM_MCP_ENV", "OTHER,ISSUES_*")
    monkeypatch.chdir(workspace)

    def swarm_mcp(*arguments: str) -> Result:
        return CliRunner().invoke(group, arguments)

    added = swarm_mcp("add", "issues", "--env", "A=${ISSUES_TOKEN}", "--env", "B=s3cret", "--", "issues-mcp", "--all")
    assert "workers must have ISSUES_TOKEN" in added.stderr
    assert "once `swarm trust` approves it" in swarm_mcp("add", "web", "--url", "https://x.example", "--project").stderr
    listed = swarm_mcp("list")
    assert "1 server not approved" in listed.stderr and "SWARM_MCP_ENV" not in listed.stderr
    found = {one["name"]: one for one in json.loads(swarm_mcp("list", "--json").stdout)["servers"]}
    assert found["issues"]["args"] == ["--all"] and found["web"]["state"] == "not approved"
    assert found["issues"]["env"] == {"A": "${ISSUES_TOKEN}", "B": "(set)"}
    kept = (home / ".config/swarm/mcp.json").read_text()
    for arguments in (("add", "issues", "--", "x"), ("add", "y"), ("add", "y", "--env", "A", "--", "x")):
        assert isinstance(swarm_mcp(*arguments).exception, ConfigurationError), arguments
    assert (home / ".config/swarm/mcp.json").read_text() == kept
