"""Rules out of the settings files that people already have.

Tests of swarm/definitions/foreign_keys.py, swarm/permissions/codex_rules.py, swarm/permissions/judge.py,
swarm/permissions/opencode_rules.py, swarm/permissions/sources.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.opencode_rules import read_opencode_permission
from swarm.permissions.rules import Rules
from swarm.permissions.sources import load_permission_settings

SEVERITY = {"allow": 0, "ask": 1, "deny": 2}


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    workspace, home = tmp_path / "w", tmp_path / "h"
    workspace.mkdir()
    home.mkdir()
    return workspace, home


def test_rules_come_from_every_file_and_say_which(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(home / ".claude/settings.json", {"permissions": {"allow": ["Bash(a)"]}, "statusLine": {"type": "x"}})
    write(home / ".config/swarm/settings.json", {"permissions": {"allow": ["Bash(b)"]}})
    write(workspace / ".claude/settings.json", '{"permissions": {"deny": ["Bash(c)"], /* so */ }}')
    write(workspace / ".claude/settings.local.json", {"permissions": {"ask": ["Bash(d)"]}})
    write(workspace / ".swarm/settings.json", {"permissions": {"deny": ["Bash(e)"]}})
    write(workspace / "opencode.json", {"permission": {"bash": {"f": "deny"}}})
    loaded = load_permission_settings(workspace, home, allow=["Read"], ask=["Bash(g)"], deny=["Bash(h)"])
    assert (loaded.problems, loaded.grants) == ((), ())
    assert {(rule.text, rule.action, rule.source) for rule in loaded.rules.rules} == {
        ("Read", "allow", "the command line"),
        ("Bash(g)", "ask", "the command line"),
        ("Bash(h)", "deny", "the command line"),
        ("Bash(a)", "allow", "user settings (~/.claude/settings.json)"),
        ("Bash(b)", "allow", "user settings (~/.config/swarm/settings.json)"),
        ("Bash(c)", "deny", "project settings (.claude/settings.json)"),
        ("Bash(d)", "ask", "local settings (.claude/settings.local.json)"),
        ("Bash(e)", "deny", "project settings (.swarm/settings.json)"),
        ("Bash(f)", "deny", "project settings (opencode.json)"),
    }


def test_what_cannot_be_used_is_named_and_the_rest_loads(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(
        workspace / ".claude/settings.json",
        {
            "permissions": {
                "allow": ["Bash(ls)", "Bash(ls", 7, "*", "Raed"],
                "deny": "Bash(rm:*)",
                "denny": [],
                "defaultMode": "yolo",
            }
        },
    )
    write(workspace / ".swarm/settings.json", "{nonsense")
    write(home / ".claude/settings.json", {"permissions": ["x"]})
    write(home / ".config/swarm/settings.json", "[]")
    write(workspace / "opencode.json", {"permission": {"bash": {"ls": "maybe"}, "doom_loop": "ask"}})
    loaded = load_permission_settings(workspace, home, deny=["Bash(x"], trusted=True)
    known, problems = loaded.rules, loaded.problems
    texts = [str(problem) for problem in problems]
    for words in (
        *("'Bash(ls'", "(a int)", "a pattern of tool names", "there is no tool 'Raed' (did you mean 'Read'?)"),
        *("`permissions.deny` is not a list", "'denny'", "did you mean 'deny'", "'yolo'", "not valid JSON"),
        *("`permissions` is not a table", "it is not a table", "'maybe'", "doom_loop", "'Bash(x'"),
    ):
        assert any(words in text for text in texts), (words, texts)
    assert all(problem.remedy for problem in problems)
    assert {rule.text for rule in known.rules} == {"Bash(ls)", "Raed"}
    assert {rule.action for rule in known.rules if rule.text == "Bash(ls)"} == {"allow", "deny"}


def test_what_claude_code_never_consults_allows_nothing(places: tuple[Path, Path]) -> None:
    workspace, home = places
    entries = [
        "Write(**/*.py)",
        "NotebookEdit(nb/**)",
        "MultiEdit",
        "MultiEdit(**)",
        "PowerShell(*)",
        "shell",
        "bash(ls)",
    ]
    write(
        home / ".claude/settings.json", {"permissions": {"allow": [*entries, "Write", "Task(explore)", "Edit(/a/**)"]}}
    )
    loaded = load_permission_settings(workspace, home)
    assert [rule.text for rule in loaded.rules.rules if rule.tool != "PowerShell"] == [
        *("Write", "Agent(explore)", "Edit(/a/**)")
    ]
    for tool in ("Edit", "Bash"):
        given_ = {"file_path": "b.py", "command": "rm -rf build"}
        assert judge(JudgedCall(tool, given_, loaded.rules, "default", workspace, sandboxed=False)).action == "ask"
    texts = [str(problem) for problem in loaded.problems]
    assert any("'Write(**/*.py)'" in text and "Write Edit(**/*.py)." in text for text in texts)
    assert any("there is no tool 'MultiEdit'. If Edit is meant, write Edit." in text for text in texts)
    # To forbid, the broader reading holds; and whoever types a rule for this project speaks of its tools.
    write(home / ".claude/settings.json", {"permissions": {"deny": entries[:3]}})
    assert len(load_permission_settings(workspace, home, allow=["Write(**/*.py)"]).rules) == 4


@pytest.mark.parametrize(
    ("table", "tool", "subject", "action"),
    [
        ({"skill": {"*": "allow", "deploy*": "deny"}}, "Skill", "pdf", "allow"),
        ({"skill": {"*": "allow", "deploy*": "deny"}}, "Skill", "deploy-all", "deny"),
        ({"skill": {"*": "deny", "pdf": "allow"}}, "Skill", "pdf", "allow"),
        ({"skill": {"*": "deny", "pdf": "allow"}}, "Skill", "x", "deny"),
        ({"edit": "allow"}, "Write", "a.py", "allow"),
    ],
)
def test_opencodes_patterns_keep_their_meaning(table: dict[str, Any], tool: str, subject: str, action: str) -> None:
    found, problems = read_opencode_permission(table, source="a test")
    given_ = {"skill": subject, "file_path": subject}
    judged = judge(JudgedCall(tool, given_, Rules(rules=tuple(found)), "default", Path("/w"), sandboxed=False))
    assert (judged.action, problems) == (action, [])


def test_what_settings_hold_beside_permissions_is_said_once(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(
        workspace / ".claude/settings.json",
        {
            "hooks": {"PreToolUse": []},
            "sandbox": {"enabled": True},
            "env": {},
            "fallbackModel": "opus",
            "permissions": {"disableBypassPermissionsMode": "disable", "deny": ["mcp__a__b", "mcp__c"]},
        },
    )
    write(home / ".claude/settings.json", {"permissions": {"allow": ["mcp__a__*"], "deny": ["mcp__*"]}})
    loaded = load_permission_settings(workspace, home)
    assert len(loaded.rules) == 4
    hooks, switch, servers = sorted((str(problem) for problem in loaded.problems), key=lambda text: "MCP" in text)
    assert "without effect: `fallbackModel`. `swarm compat`" in hooks
    assert "'disableBypassPermissionsMode'` is not supported" in switch
    assert "no MCP server is configured for 4 rules about their tools (mcp__a__* …)" in servers
    write(workspace / ".mcp.json", {"mcpServers": {"a": {"command": "x"}, "c": {"url": "https://c.example"}}})
    assert not [text for text in map(str, load_permission_settings(workspace, home).problems) if "MCP" in text]


@pytest.mark.parametrize("name", [".claude/settings.json", ".claude/settings.local.json", ".swarm/settings.json"])
def test_what_a_file_of_the_workspace_loosens_counts_only_if_it_is_trusted(
    places: tuple[Path, Path], name: str
) -> None:
    workspace, home = places
    table = {
        "defaultMode": "bypassPermissions",
        "additionalDirectories": ["/x-is-no-folder"],
        "allow": ["Bash", "Edit(//**)"],
        "deny": ["Bash(rm:*)"],
        "ask": ["WebFetch"],
    }
    write(workspace / name, {"permissions": table})
    loaded = load_permission_settings(workspace, home)
    assert loaded.default_mode is None
    # Nothing would be loosened by it, so trust must not come to cover it.
    assert any("is no folder on this machine" in str(problem) for problem in loaded.problems)
    assert {(rule.action, rule.text) for rule in loaded.rules.rules} == {("deny", "Bash(rm:*)"), ("ask", "WebFetch")}
    wanted = {"the mode bypassPermissions", "allow Bash", "allow Edit(//**)"}
    assert {grant.text for grant in loaded.grants} == wanted and all(name in grant.source for grant in loaded.grants)
    trusting = load_permission_settings(workspace, home, trusted=True)
    assert trusting.default_mode == "bypassPermissions"
    assert len(trusting.rules) == 4 and trusting.grants == loaded.grants


def test_opencodes_tables_in_the_workspace_grant_nothing_either(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(workspace / "opencode.json", {"permission": {"bash": {"*": "allow", "git push *": "ask"}, "edit": "deny"}})
    loaded = load_permission_settings(workspace, home)
    assert {rule.action for rule in loaded.rules.rules} == {"ask", "deny"}
    assert [grant.text for grant in loaded.grants] == ["allow Bash"]
    write(home / ".config/opencode/opencode.json", {"permission": {"webfetch": "allow"}})
    assert "allow" in {rule.action for rule in load_permission_settings(workspace, home).rules.rules}


def test_a_stricter_mode_of_the_workspace_counts_at_once_and_a_milder_one_does_not(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(home / ".claude/settings.json", {"permissions": {"defaultMode": "plan"}})
    write(workspace / ".claude/settings.json", {"permissions": {"defaultMode": "default"}})
    loaded = load_permission_settings(workspace, home)
    assert loaded.default_mode == "plan" and [grant.text for grant in loaded.grants] == ["the mode default"]
    write(home / ".claude/settings.json", {"permissions": {"defaultMode": "bypassPermissions"}})
    loaded = load_permission_settings(workspace, home)
    assert loaded.default_mode == "default" and loaded.grants == ()


def test_in_a_home_as_workspace_the_persons_own_file_is_their_own(places: tuple[Path, Path]) -> None:
    _, home = places
    write(home / ".claude/settings.json", {"permissions": {"allow": ["Bash(a)"]}})
    loaded = load_permission_settings(home, home)
    assert [rule.text for rule in loaded.rules.rules] == ["Bash(a)"] and loaded.grants == ()


def test_an_administrators_rules_hold_and_a_lost_switch_of_theirs_is_a_lost_restriction(
    places: tuple[Path, Path],
) -> None:
    workspace, home = places
    table = {"deny": ["Bash(x)"], "allow": ["Bash(y)"], "disableBypassPermissionsMode": "disable"}
    write(home / "etc/managed-settings.json", {"permissions": table})
    loaded = load_permission_settings(workspace, home, managed=home / "etc")
    assert {(rule.action, rule.source) for rule in loaded.rules.rules} == {
        ("deny", "managed settings (~/etc/managed-settings.json)"),
        ("allow", "managed settings (~/etc/managed-settings.json)"),
    }
    assert [problem.guards for problem in loaded.problems] == [True] and loaded.grants == ()


def test_the_nearest_file_decides_the_default_mode(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(home / ".claude/settings.json", {"permissions": {"defaultMode": "acceptEdits"}})
    assert load_permission_settings(workspace, home).default_mode == "acceptEdits"
    write(workspace / ".claude/settings.json", {"permissions": {"defaultMode": "plan"}})
    assert load_permission_settings(workspace, home).default_mode == "plan"
    write(workspace / ".claude/settings.local.json", {"permissions": {"defaultMode": "manual"}})
    assert load_permission_settings(workspace, home, trusted=True).default_mode == "default"


@given(
    st.dictionaries(
        st.sampled_from(["allow", "deny", "defaultMode", "x"]), st.text() | st.lists(st.text() | st.integers())
    )
)
@settings(deadline=None, max_examples=50)
def test_no_settings_file_makes_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, Any]
) -> None:
    workspace = tmp_path_factory.mktemp("w")
    write(workspace / ".claude/settings.json", {"permissions": table})
    write(workspace / "opencode.json", {"permission": table})
    loaded = load_permission_settings(workspace, workspace / "none")
    assert {rule.action for rule in loaded.rules.rules} <= {"ask", "deny"}
    assert all(str(workspace) in str(problem) for problem in loaded.problems)


# -- OpenCode ---------------------------------------------------------------------------------------------


def translated(permission: Any) -> Rules:
    found, _ = read_opencode_permission(permission, source="project settings (opencode.json)")
    return Rules(rules=tuple(found))


def decide(known: Rules, tool: str, given_: dict[str, Any]) -> str:
    return judge(JudgedCall(tool, given_, known, "bypassPermissions", Path("/nonexistent/w"), sandboxed=False)).action


def test_the_usual_tables_mean_what_their_authors_meant() -> None:
    table = {
        "edit": {"*": "deny", "docs/*.md": "allow", "docs/private/*": "ask"},
        "bash": {"*": "ask", "git *": "allow", "git push *": "deny", "npm run test:*": "allow"},
        "webfetch": "deny",
        "task": {"*": "deny", "explore": "allow"},
    }
    known = translated(table)
    for command, action in {
        "git status": "allow",
        "git push": "deny",
        "git status && git push x": "deny",
        "make": "ask",
        "git status; make": "ask",
        "npm run test:unit": "allow",
        "npm run test": "ask",
        "npm run test x": "ask",
    }.items():
        assert decide(known, "Bash", {"command": command}) == action, command
    for path, action in {
        "docs/a.md": "allow",
        "docs/x/a.md": "allow",
        "docs/private/a.md": "ask",
        "a.md": "deny",
    }.items():
        for tool in ("Edit", "Write"):
            assert decide(known, tool, {"file_path": path}) == action, path
    assert decide(known, "WebFetch", {"url": "https://x.y"}) == "deny"
    assert decide(known, "Agent", {"subagent_type": "explore"}) == "allow"
    assert decide(known, "Agent", {"subagent_type": "worker"}) == "deny"


def test_the_last_word_for_all_tools_wins_and_leaves_our_own_tools_alone() -> None:
    assert decide(translated({"bash": "allow", "*": "ask"}), "Bash", {"command": "x"}) == "ask"
    assert decide(translated({"*": "deny", "read": "allow"}), "Read", {"file_path": "x"}) == "allow"
    assert decide(translated({"*": "deny", "read": "allow"}), "Bash", {"command": "ls"}) == "deny"
    assert decide(translated({"*": "deny", "bash": {"ls *": "allow"}}), "Bash", {"command": "ls x"}) == "allow"
    assert decide(translated("deny"), "Edit", {"file_path": "x"}) == "deny"
    assert decide(translated("deny"), "WaitAgents", {}) == "allow"
    assert decide(translated("allow"), "Bash", {"command": "x"}) == "allow"
    assert decide(translated({"github_list": "deny"}), "mcp__github__list", {}) == "deny"


def matches_there(pattern: str, text: str) -> bool:
    """OpenCode's own matching: `*` is any text, `?` one character, and a trailing ` *` may be missing."""
    body = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    if body.endswith(r"\ .*"):
        body = body[:-4] + r"(\ .*)?"
    return re.fullmatch(body, text, re.DOTALL) is not None


def decided_there(table: dict[str, Any], key: str, text: str) -> str:
    verdict = "allow"
    for name, patterns in table.items():
        for pattern, action in ({"*": patterns} if isinstance(patterns, str) else patterns).items():
            if name in ("*", key) and matches_there(pattern, text):
                verdict = action
    return verdict


WORDS = st.sampled_from(["ls", "git", "x", "a.b", "push", "ls:x", "*", "?"])
COMMANDS = st.lists(st.sampled_from(["ls", "git", "x", "a.b", "push", "ls:x", "y"]), min_size=1, max_size=3).map(
    " ".join
)
PATHS = st.lists(st.sampled_from(["a", "b.c", "src", "x", "lsx"]), min_size=1, max_size=3).map("/".join)
PATTERNS = st.lists(WORDS, min_size=1, max_size=3)
ACTIONS = st.sampled_from(["allow", "ask", "deny"])


def tables(joint: str, keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    joined = PATTERNS.map(joint.join) | PATTERNS.map("".join)
    return st.dictionaries(st.sampled_from(keys), ACTIONS | st.dictionaries(joined, ACTIONS, max_size=4), max_size=3)


@given(tables(" ", ["bash", "*", "edit"]), COMMANDS)
@settings(deadline=None, max_examples=120)
def test_a_translated_table_never_lets_a_command_do_more(table: dict[str, Any], command: str) -> None:
    there, here = decided_there(table, "bash", command), decide(translated(table), "Bash", {"command": command})
    assert SEVERITY[here] >= SEVERITY[there], (there, here)


@given(tables("/", ["edit", "*", "bash"]), PATHS)
@settings(deadline=None, max_examples=120)
def test_a_translated_table_never_lets_an_edit_do_more(table: dict[str, Any], path: str) -> None:
    there, here = decided_there(table, "edit", path), decide(translated(table), "Write", {"file_path": path})
    assert SEVERITY[here] >= SEVERITY[there], (there, here)


def decide_by_files(workspace: Path, home: Path, tool: str, subject: str) -> str:
    """Judge a call by the rules of all files."""
    loaded = load_permission_settings(workspace, home, trusted=True)
    given_ = dict.fromkeys(("command", "file_path", "url", "subagent_type", "skill"), subject)
    return judge(JudgedCall(tool, given_, loaded.rules, "acceptEdits", workspace, sandboxed=False)).action


def test_opencode_2_keeps_its_order_of_rules(places: tuple[Path, Path]) -> None:
    workspace, home = places
    listed = [
        ("*", "*", "ask"),
        ("read", "*", "allow"),
        ("read", "*.env", "deny"),
        ("shell", "git *", "allow"),
        ("shell", "git push *", "deny"),
        ("subagent", "explore", "deny"),
        ("skill", "deploy*", "deny"),
        ("webfetch", "*", "deny"),
        ("webfetch", "*", "allow"),
    ]
    table = [dict(zip(("action", "resource", "effect"), one, strict=True)) for one in listed]
    write(workspace / "opencode.json", {"permission": {"bash": {"git log": "deny"}}, "permissions": table})
    for tool, subject, action in (
        ("Bash", "git push", "deny"),
        ("Bash", "git push origin main", "deny"),
        ("Bash", "git log", "allow"),
        ("Bash", "make", "ask"),
        ("Read", "sub/prod.env", "deny"),
        ("Read", "a.py", "allow"),
        ("Write", "a.py", "ask"),
        ("Agent", "explore", "deny"),
        ("Agent", "plan", "ask"),
        ("Skill", "deploy-all", "deny"),
        ("WebFetch", "https://example.com", "allow"),
    ):
        assert decide_by_files(workspace, home, tool, subject) == action, (tool, subject)
    write(workspace / "opencode.json", {"permissions": [{"action": "shell", "resource": "rm *", "effect": "no"}, 7]})
    assert decide_by_files(workspace, home, "Bash", "rm x") == "deny"
    assert len(load_permission_settings(workspace, home).problems) == 2


def test_codexs_rules_are_read_and_never_run(places: tuple[Path, Path]) -> None:
    workspace, home = places
    rules_ = """# what may run
prefix_rule(pattern=["git", ["push", "fetch"]], decision="forbidden", justification="ask me", match=["git push x"])
prefix_rule(pattern = ["make"], decision = "prompt")
prefix_rule(pattern=["pytest"])
host_executable(name="git", paths=["/usr/bin/git"])
network_rule(host="evil.example", protocol="https", decision="deny")
"""
    write(workspace / ".codex/rules/default.rules", rules_)
    for tool, subject, action in (
        ("Bash", "git push origin", "deny"),
        ("Bash", "cd x && git fetch", "deny"),
        ("Bash", "git status", "ask"),
        ("Bash", "make all", "ask"),
        ("Bash", "pytest -q", "allow"),
        ("WebFetch", "https://evil.example/x", "deny"),
    ):
        assert decide_by_files(workspace, home, tool, subject) == action, (tool, subject)
    assert [grant.text for grant in load_permission_settings(workspace, home).grants] == ["allow Bash(pytest:*)"]
    write(home / ".codex/rules/x.rules", "open('/tmp/never', 'w')\nprefix_rule(pattern=[x])\nprefix_rule(")
    assert decide_by_files(workspace, home, "Bash", "pytest -q") == "ask"
    assert "until then every command is asked about" in str(load_permission_settings(workspace, home).problems[0])


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ('sandbox_mode = "read-only"', "default"),
        ('sandbox_mode = "read-only"\napproval_policy = "never"', "dontAsk"),
        ('approval_policy = "untrusted"', "default"),
        ('sandbox_mode = "danger-full-access"\napproval_policy = "never"', None),
        ('profile = "p"\n[profiles.p]\nsandbox_mode = "read-only"', "default"),
    ],
)
def test_codexs_sandbox_and_approvals_bound_the_mode(places: tuple[Path, Path], text: str, mode: str | None) -> None:
    workspace, home = places
    write(home / ".codex/config.toml", text)
    assert load_permission_settings(workspace, home).default_mode == mode
    write(home / ".claude/settings.json", {"permissions": {"defaultMode": "acceptEdits"}})
    assert load_permission_settings(workspace, home).default_mode == (mode or "acceptEdits")


def test_a_key_without_effect_is_told_in_each_systems_file(places: tuple[Path, Path]) -> None:
    workspace, home = places
    write(home / ".codex/config.toml", 'model_provider = "x"\nnew_guard = true\n[tui]\ntheme = "dark"')
    write(workspace / "opencode.json", {"plugin": ["a"], "theme": "dark", "formatter": {}})
    write(
        workspace / ".claude/settings.json",
        {"fallbackModel": "opus", "deniedModels": ["x"]},
    )
    told = " ".join(str(problem) for problem in load_permission_settings(workspace, home).problems)
    for keys in (
        "`model_provider`, `new_guard`.",
        "effect: `plugin`.",
        "`fallbackModel`, `deniedModels`.",
    ):
        assert keys in told, (keys, told)
