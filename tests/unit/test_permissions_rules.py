"""The grammar of rules, and which calls they match.

Tests of swarm/permissions/definition_rules.py, swarm/permissions/judge.py, swarm/permissions/lasting_rules.py, swarm/permissions/modes.py,
swarm/permissions/rules.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.core.errors import SwarmError
from swarm.definitions.mcp.servers import tool_name
from swarm.definitions.model import AgentDefinition, PermissionMode
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.judge import JudgedCall, Judgement, judge, may_read
from swarm.permissions.lasting_rules import always_rule
from swarm.permissions.modes import MODES, at_most
from swarm.permissions.rules import Action, InvalidRule, Rule, Rules, parse_rule

ACTIONS: tuple[Action, ...] = get_args(Action)
SEVERITY = {"allow": 0, "ask": 1, "deny": 2}


def rules(*, allow: tuple[str, ...] = (), ask: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Rules:
    lists: dict[Action, tuple[str, ...]] = {"allow": allow, "ask": ask, "deny": deny}
    return Rules(rules=tuple(parse_rule(text, action, "a test") for action, texts in lists.items() for text in texts))


def call(
    tool: str,
    given: dict[str, Any],
    known: Rules,
    workspace: Path,
    *,
    mode: PermissionMode = "default",
    sandboxed: bool = False,
    read_only_sandbox: bool = False,
    plan_file: Path | None = None,
) -> Judgement:
    return judge(JudgedCall(tool, given, known, mode, workspace, sandboxed, read_only_sandbox, plan_file))


# -- the grammar ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tool", "spec"),
    [
        ("Read", "Read", None),
        ("  Bash( git log:* ) ", "Bash", "git log:*"),
        ("Bash(*)", "Bash", None),
        ("Bash()", "Bash", None),
        ("run_shell(ls)", "Bash", "ls"),
        ("Task(explore)", "Agent", "explore"),
        ("Agent(explore, plan)", "Agent", "explore, plan"),
        ("MultiEdit(/src/**)", "Edit", "/src/**"),
        ("read_file(~/.ssh/**)", "Read", "~/.ssh/**"),
        ("mcp__github__*", "mcp__github__*", None),
        ("mcp__github", "mcp__github", None),
        ("WebFetch(domain:*.example.com)", "WebFetch", "domain:*.example.com"),
        ("WebFetch(domain:example.*)", "WebFetch", "domain:example.*"),
        ("Skill(review)", "Skill", "review"),
        ("SlashCommand(/fix:*)", "SlashCommand", "/fix:*"),
        ("Agent(my-plugin:reviewer)", "Agent", "my-plugin:reviewer"),
        ("Bash(echo (a) b)", "Bash", "echo (a) b"),
    ],
)
def test_an_entry_is_read_under_our_names(text: str, tool: str, spec: str | None) -> None:
    rule = parse_rule(text, "allow", "user settings (~/.claude/settings.json)")
    assert (rule.tool, rule.spec) == (tool, spec)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("", "allow"),
        ("Bash(ls", "allow"),
        ("Bash ls", "allow"),
        ("Bash(a\nb)", "deny"),
        ("*", "allow"),
        ("mcp__*", "allow"),
        ("mcp__*__x", "allow"),
        ("B*", "allow"),
        ("WebFetch(https://example.com)", "deny"),
        ("Edit(!x)", "deny"),
        ("Edit(x\\)", "deny"),
        ("Read(~root/x)", "deny"),
        ("TodoWrite(x)", "deny"),
        ("Agent(model:opus)", "allow"),
        ("Bash(" + "*" * 30 + ")", "deny"),
        ("Bash(" + "x" * 5000 + ")", "deny"),
        (7, "allow"),
        (None, "deny"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_source_and_a_remedy(text: object, action: Action) -> None:
    with pytest.raises(InvalidRule) as refused:
        parse_rule(text, action, "project settings (.claude/settings.json)")
    assert isinstance(refused.value, SwarmError)
    assert "project settings (.claude/settings.json)" in str(refused.value)
    assert refused.value.remedy.endswith(".")


@given(
    st.text(max_size=80) | st.from_regex(r"[A-Za-z_*]{1,8}\([^\n]{0,30}\)", fullmatch=True), st.sampled_from(ACTIONS)
)
def test_no_text_makes_the_reader_or_the_judge_fail(text: str, action: Action) -> None:
    try:
        known = Rules(rules=(parse_rule(text, action, "a test"),))
    except InvalidRule:
        return
    for tool, given_ in (("Bash", {"command": "git log"}), ("Edit", {"file_path": "a/b"}), ("Grep", {}), ("Agent", {})):
        assert call(tool, given_, known, Path("/nonexistent")).action in ACTIONS


def test_rules_travel_as_json() -> None:
    known = rules(allow=("Bash(git log:*)",), deny=("Read(.env)",)) + Rules(
        rules=(Rule(action="deny", tool="Bash", source="x", unless=("Bash(ls)",)),)
    )
    known.about("deny", "Bash")
    assert Rules.model_validate_json(known.model_dump_json()) == known
    assert hash(known) == hash(Rules.model_validate_json(known.model_dump_json()))


def test_merging_keeps_every_rule_once() -> None:
    one, other = rules(deny=("Bash(rm:*)",)), rules(allow=("Read",))
    assert len(one + other + one) == 2 == len(one + other)


# -- paths ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ("/src/**", ["src/a", "src/a/b", "./src/a"], ["lib/src/a", "srcs/a", "src/../a"]),
        ("./src/**", ["src/a"], ["lib/src/a"]),
        ("src/", ["src/a", "lib/src/a"], ["srca"]),
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py.txt"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/a.md"], ["x/docs/a.md", "docs/a.txt"]),
        ("a?c", ["abc"], ["abbc"]),
        ("[ab].txt", ["a.txt"], ["c.txt"]),
        ("#x", ["#x"], ["x"]),
        ("//etc/**", ["/etc/passwd", "../../../../../../../../../etc/x"], ["etc/passwd"]),
        ("../other/**", ["../other/a"], ["other/a", "a"]),
    ],
)
def test_a_path_pattern_allows_what_a_gitignore_would_match(
    spec: str, inside: list[str], outside: list[str], tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    known = rules(allow=(f"Edit({spec})",))
    for path in inside:
        assert call("Write", {"file_path": path}, known, workspace).action == "allow", path
        absolute = str(workspace / path)
        assert call("Edit", {"file_path": absolute}, known, workspace).action == "allow", path
    for path in outside:
        assert call("Edit", {"file_path": path}, known, workspace).action == "ask", path


@pytest.mark.parametrize(
    ("spec", "denied", "free"),
    [
        ("./.env", [".env", "sub/.env"], [".env.example"]),
        ("./secrets/**", ["secrets/k", "sub/secrets/k"], ["secret/k"]),
        ("./docs/private/**", ["docs/private/a"], ["sub/docs/private/a"]),
        (".env", [".env", "sub/.env"], ["env"]),
        ("/.env", [".env"], ["sub/.env"]),
    ],
)
def test_a_path_is_denied_in_the_broader_reading_to_every_tool(
    spec: str, denied: list[str], free: list[str], tmp_path: Path
) -> None:
    known = rules(deny=(f"Read({spec})",))
    for path in denied:
        for tool, given_ in (("Read", {"file_path": path}), ("Bash", {"command": f"cat {path}"})):
            assert call(tool, given_, known, tmp_path, mode="bypassPermissions").action == "deny", (tool, path)
    for path in free:
        assert call("Read", {"file_path": path}, known, tmp_path).action == "allow", path


def test_bare_edit_allows_the_tool_of_that_name_and_a_path_all_that_write(tmp_path: Path) -> None:
    given_ = {"file_path": "a", "notebook_path": "a"}
    for tool, by_name, by_path in (
        ("Edit", "allow", "allow"),
        ("Write", "ask", "allow"),
        ("NotebookEdit", "ask", "allow"),
    ):
        assert call(tool, given_, rules(allow=("Edit",)), tmp_path).action == by_name, tool
        assert call(tool, given_, rules(allow=("Edit(/**)",)), tmp_path).action == by_path, tool
        assert call(tool, given_, rules(deny=("Edit",)), tmp_path, mode="acceptEdits").action == "deny", tool


@pytest.mark.parametrize(
    "rule", ["Skill(dirn)", "Skill(shownname)", "Skill(/SHOWNNAME)", "Skill(p:dirn)", "Skill(dir*)"]
)
def test_a_skill_is_denied_by_each_of_its_names(rule: str, tmp_path: Path) -> None:
    names = ("p:dirn", "shownname", ".claude/skills/dirn")
    for spelt in ("dirn", "/dirn", "DIRN", "ShownName", "p:dirn"):
        judged = JudgedCall("Skill", {"skill": spelt}, rules(deny=(rule,)), "default", tmp_path, False, names=names)
        assert judge(judged).action == "deny", spelt
    other = JudgedCall("Skill", {"skill": "x"}, rules(deny=(rule,)), "default", tmp_path, False, names=("p:x", "xx"))
    assert judge(other).action == "allow"


@pytest.mark.parametrize(
    ("tool", "given_", "rule"),
    [
        ("ReadMcpResource", {"server": "git hub", "uri": "x"}, "mcp__git_hub"),
        ("GetMcpPrompt", {"server": "git hub", "name": "x"}, "mcp__git_hub__*"),
        ("mcp__GitHub__push", {}, "mcp__github__push"),
        ("ListMcpResources", {"server": "git.hub"}, "mcp__git.hub"),
        ("GetMcpPrompt", {"server": "git.hub", "name": "drop all"}, "mcp__git.hub__drop all"),
        ("mcp__git_hub__push", {}, "mcp__git.hub__push"),
        ("mcp__a_b__drop", {}, "mcp__a__b__drop"),
        ("mcp__a_b__drop", {}, "mcp__a__b"),
        ("mcp__x__drop", {}, "mcp___x___drop"),
        ("mcp__x__a_b_0123abcd", {}, "mcp__x__a.b"),
        (tool_name("long", "x" * 80), {}, f"mcp__long__{'x' * 80}"),
        ("mcp__claude_ai_Mail__send", {}, "mcp__claude.ai Mail__*"),
        ("Agent", {"model": " Opus ", "prompt": "x"}, "Agent(model:opus)"),
        ("WebFetch", {"url": "http://0x7f.1/"}, "WebFetch(domain:127.0.0.1)"),
        ("WebFetch", {"url": "http://2130706433/"}, "WebFetch(domain:127.0.0.1)"),
        ("WebFetch", {"url": "http://[::ffff:127.0.0.1]/"}, "WebFetch(domain:127.0.0.1)"),
        ("Read", {"file_path": "u\u0308.txt"}, "Read(\u00fc.txt)"),
        ("Read", {"file_path": "\u00fc.txt"}, "Read(u\u0308.txt)"),
        ("Bash", {"command": "cat u\u0308.txt"}, "Read(\u00fc.txt)"),
        ("Bash", {"command": "cat /proc/self/cwd/.env"}, "Read(.env)"),
        ("Bash", {"command": "cat /proc/self/root/etc/passwd"}, "Read(//etc/passwd)"),
        ("Bash", {"command": "cat ~+/.env"}, "Read(.env)"),
        ("Agent", {"subagent_type": "fork", "prompt": "x"}, "Agent(fork)"),
        ("Agent", {"fork": True, "prompt": "x"}, "Agent(fork)"),
        ("Agent", {"subagent_type": "p:reviewer", "prompt": "x"}, "Agent(reviewer)"),
    ],
)
def test_a_deny_holds_for_every_spelling_of_what_it_names(
    tool: str, given_: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    assert call(tool, given_, rules(deny=(rule,)), tmp_path, mode="bypassPermissions").action == "deny"
    assert call(tool, given_, rules(), tmp_path, mode="bypassPermissions").action == "allow"


def test_home_is_the_home_of_the_process(tmp_path: Path) -> None:
    known = rules(deny=("Read(~/.ssh/**)",))
    for path in ("~/.ssh/id", str(Path.home() / ".ssh" / "id"), "~/x/../.ssh/id"):
        assert call("Read", {"file_path": path}, known, tmp_path).action == "deny"


def test_a_single_folder_is_allowed_at_the_top_and_denied_at_every_depth(tmp_path: Path) -> None:
    deep = {"file_path": "lib/src/a"}
    assert call("Edit", deep, rules(allow=("Edit(src/**)",)), tmp_path).action == "ask"
    assert call("Edit", deep, rules(deny=("Edit(src/**)",)), tmp_path).action == "deny"


def test_a_link_must_be_allowed_by_name_and_target_and_is_denied_by_either(tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "w", tmp_path / "secret"
    (workspace / "open").mkdir(parents=True)
    (workspace / "closed").mkdir()
    elsewhere.mkdir()
    (workspace / "open" / "out").symlink_to(elsewhere)
    (workspace / "open" / "in").symlink_to(workspace / "closed")
    allowing = rules(allow=("Edit(/open/**)",))
    assert call("Edit", {"file_path": "open/x"}, allowing, workspace).action == "allow"
    assert call("Edit", {"file_path": "open/out/x"}, allowing, workspace).action == "ask"
    assert call("Edit", {"file_path": "open/in/x"}, allowing, workspace).action == "ask"
    for spec in ("/closed/**", "/open/in/**"):
        denying = rules(deny=(f"Edit({spec})",))
        assert call("Edit", {"file_path": "open/in/x"}, denying, workspace).action == "deny", spec
    accepted = call("Edit", {"file_path": "open/out/x"}, rules(), workspace, mode="acceptEdits")
    assert accepted.action == "ask"


def test_the_workspace_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for given_path in ("src/a", str(tmp_path / "link/src/a"), str(tmp_path / "real/src/a")):
        known = rules(allow=("Edit(/src/**)",))
        assert call("Edit", {"file_path": given_path}, known, tmp_path / "link").action == "allow", given_path


def test_rules_about_edit_and_read_are_about_their_families(tmp_path: Path) -> None:
    for tool in ("Edit", "Write", "NotebookEdit"):
        key = "notebook_path" if tool == "NotebookEdit" else "file_path"
        assert call(tool, {key: "a"}, rules(deny=("Edit",)), tmp_path).action == "deny"
        assert call(tool, {key: "a"}, rules(deny=("Write(a)",)), tmp_path).action == "deny"
        assert call(tool, {key: "a"}, rules(allow=("Write(a)",)), tmp_path).action == (
            "allow" if tool == "Write" else "ask"
        )
    assert call("Edit", {"file_path": "a"}, rules(deny=("Write",)), tmp_path).action == "ask"
    denied = rules(deny=("Read(secrets/**)",))
    for tool, given_ in (
        ("Read", {"file_path": "secrets/a"}),
        ("LS", {"path": "secrets"}),
        ("Grep", {"pattern": "x", "path": "secrets/a"}),
        ("Grep", {"pattern": "x", "glob": "secrets/a"}),
        ("Glob", {"pattern": "secrets/a"}),
        ("Glob", {"pattern": "*", "path": str(tmp_path / "secrets")}),
    ):
        assert call(tool, given_, denied, tmp_path).action == "deny", (tool, given_)
    assert call("Grep", {"pattern": "secrets/a"}, denied, tmp_path).action == "allow"
    assert call("Read", {"file_path": "output:x"}, rules(deny=("Read(output*)",)), tmp_path).action == "allow"


def test_what_may_not_be_read_may_not_be_changed_either(tmp_path: Path) -> None:
    denied = rules(deny=("Read(.env)", "Read(/secrets/**)"), allow=("Edit", "Write", "Bash"))
    for path in (".env", "sub/.env", "secrets/a"):
        for tool, key in (("Edit", "file_path"), ("Write", "file_path"), ("NotebookEdit", "notebook_path")):
            for mode in ("acceptEdits", "bypassPermissions"):
                assert call(tool, {key: path}, denied, tmp_path, mode=mode).action == "deny", (tool, path)
        for command in (f"echo x > {path}", f"tee {path}", f"echo x >> ./{path}", f"cp a {path}"):
            assert call("Bash", {"command": command}, denied, tmp_path, sandboxed=True).action == "deny", command
    (tmp_path / "link").symlink_to(tmp_path / ".env")
    assert call("Write", {"file_path": "link"}, denied, tmp_path).action == "deny"
    assert call("Bash", {"command": "echo x > $F"}, denied, tmp_path, mode="bypassPermissions").action == "ask"
    assert call("Edit", {"file_path": "a"}, denied, tmp_path).action == "allow"
    # A whole tool that is gone says nothing of files, and a question about reading none about writing.
    assert call("Write", {"file_path": "a"}, rules(deny=("Read",), allow=("Write",)), tmp_path).action == "allow"
    assert call("Write", {"file_path": "a"}, rules(ask=("Read(a)",), allow=("Write",)), tmp_path).action == "allow"
    spared = Rule(action="deny", tool="Read", spec="*.env", source="x", unless=("Read(sample.env)",))
    known = Rules(rules=(spared, *rules(allow=("Edit",)).rules))
    assert call("Edit", {"file_path": "sample.env"}, known, tmp_path).action == "allow"
    assert call("Edit", {"file_path": "my.env"}, known, tmp_path).action == "deny"


def test_tools_that_search_can_ask_about_single_files(tmp_path: Path) -> None:
    known = rules(deny=("Read(*.pem)", "Read(/private/**)"))
    assert may_read(tmp_path / "a.txt", known, tmp_path)
    assert not may_read(tmp_path / "x" / "a.pem", known, tmp_path)
    assert not may_read(tmp_path / "private" / "a", known, tmp_path)


# -- other tools ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "url", "allowed", "denied"),
    [
        ("example.com", "https://example.com/x", True, True),
        ("example.com", "https://EXAMPLE.com.:443/x", True, True),
        ("example.com", "https://www.example.com", False, True),
        ("example.com", "https://example.com@evil.com/", False, False),
        ("example.com", "https://evil.com/example.com", False, False),
        ("example.com", "https://notexample.com", False, False),
        ("example.com", "https://evil.com\\@example.com", False, True),
        ("example.com", "https://exa mple.com", False, True),
        ("example.com", "https://[", False, True),
        ("example.com", None, False, True),
        ("*.example.com", "https://a.b.example.com", True, True),
        ("*.example.com", "https://example.com", False, True),
        ("*", "https://anything.org", True, True),
        ("example.*", "https://example.org", True, True),
        ("example.*", "https://example.evil.org", False, True),
        ("example.*", "https://notexample.org", False, False),
        ("ads.*.com", "https://ads.x.com", True, True),
        ("ads.*.com", "https://ads.x.y.com", False, True),
        ("ads.*.com", "https://ads.com", False, False),
        ("ads.*.com", "https://www.ads.x.com", False, True),
        ("*.ads*.com", "https://a.ads1.com", True, True),
        ("*.ads*.com", "https://a.b.com", False, False),
    ],
)
def test_a_domain_rule_reads_urls_as_a_browser_does(
    spec: str, url: object, allowed: bool, denied: bool, tmp_path: Path
) -> None:
    given_ = {"url": url}
    rule = f"WebFetch(domain:{spec})"
    assert (call("WebFetch", given_, rules(allow=(rule,)), tmp_path).action == "allow") is allowed
    assert (call("WebFetch", given_, rules(deny=(rule,)), tmp_path).action == "deny") is denied


def test_agent_types_parameters_and_servers_can_be_named(tmp_path: Path) -> None:
    explore = {"subagent_type": "explore", "model": "opus", "prompt": "x"}
    assert call("Agent", explore, rules(), tmp_path).action == "allow"
    for rule in ("Agent(explore)", "Task(expl*)", "Agent(plan, explore)", "Agent(model:op*)", "Agent"):
        assert call("Agent", explore, rules(deny=(rule,)), tmp_path).action == "deny", rule
    assert call("Agent", explore, rules(deny=("Agent(plan)", "Agent(model:haiku)")), tmp_path).action == "allow"
    assert call("Agent", {"prompt": "x"}, rules(ask=("Agent(general-purpose)",)), tmp_path).action == "ask"
    for rule in ("mcp__github", "mcp__github__*", "mcp__github__list", "mcp__*", "*"):
        assert call("mcp__github__list", {}, rules(deny=(rule,)), tmp_path).action == "deny", rule
    assert call("mcp__githubber__list", {}, rules(deny=("mcp__github",)), tmp_path).action == "ask"
    assert call("mcp__github__list", {}, rules(allow=("mcp__github",)), tmp_path).action == "allow"


def test_a_type_that_is_denied_is_denied_by_its_other_name_too(tmp_path: Path) -> None:
    for kind, rule in (("reviewer", "code-reviewer"), ("code-reviewer", "Reviewer"), ("general", "general-purpose")):
        known = rules(deny=(f"Agent({rule})",))
        assert call("Agent", {"subagent_type": kind}, known, tmp_path).action == "deny", kind
    limited = define(["Agent(code-reviewer)"])
    assert call("Agent", {"subagent_type": "code-reviewer"}, limited, tmp_path).action == "allow"
    assert call("Agent", {"subagent_type": "reviewer"}, limited, tmp_path).action == "deny", "it may be another type"


def test_agents_of_plugins_skills_and_commands_can_be_named(tmp_path: Path) -> None:
    reviewer = {"subagent_type": "my-plugin:reviewer", "model": "opus", "prompt": "x"}
    for rule in ("Agent(my-plugin:reviewer)", "Agent(my-plugin:*)", "Agent(plan, my-plugin:reviewer)"):
        assert call("Agent", reviewer, rules(deny=(rule,)), tmp_path).action == "deny", rule
        assert call("Agent", reviewer, rules(ask=("Agent",), allow=(rule,)), tmp_path).action == "ask"
    assert call(
        "Agent", {"subagent_type": "reviewer"}, rules(deny=("Agent(my-plugin:reviewer)",)), tmp_path
    ).action == ("allow")
    for spec, subject, matched in (
        ("review", "review", True),
        ("review", "review all", False),
        ("deploy *", "deploy", True),
        ("deploy *", "deploy to x", True),
        ("deploy *", "deployer", True),
        ("deploy *", "redeploy", False),
    ):
        for action in ("deny", "ask"):
            known = rules(**{action: (f"Skill({spec})",)})
            found = call("Skill", {"skill": subject}, known, tmp_path).action
            assert found == (action if matched else "allow"), (spec, subject)
    assert (
        call("SlashCommand", {"command": "/fix it"}, rules(allow=("SlashCommand(/fix:*)",)), tmp_path).action == "allow"
    )
    assert call("SlashCommand", {}, rules(allow=("SlashCommand(/fix:*)",)), tmp_path).action == "ask"


# -- modes ------------------------------------------------------------------------------------------------

EDIT, OUTSIDE = ("Edit", {"file_path": "a"}), ("Edit", {"file_path": "/etc/x"})
LOOK, MAKE = ("Bash", {"command": "ls"}), ("Bash", {"command": "make"})
FETCH, MCP, SPAWN = ("WebFetch", {"url": "https://x.y"}), ("mcp__a__b", {}), ("Agent", {"subagent_type": "x"})


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        #                    EDIT    OUTSIDE  LOOK          MAKE   sandboxed  FETCH    MCP     SPAWN
        ("default", ("ask", "ask", "look, ask", "look, ask", "look, ask", "ask", "ask", "allow")),
        ("bubble", ("ask", "ask", "look, ask", "look, ask", "look, ask", "ask", "ask", "allow")),
        ("acceptEdits", ("allow", "ask", "look, ask", "look, ask", "allow", "ask", "ask", "allow")),
        ("auto", ("allow", "ask", "look, ask", "look, ask", "allow", "ask", "ask", "allow")),
        ("plan", ("deny", "deny", "look, deny", "look, deny", "look, deny", "ask", "deny", "allow")),
        ("dontAsk", ("deny", "deny", "look, deny", "look, deny", "look, deny", "deny", "deny", "allow")),
        ("bypassPermissions", ("allow",) * 8),
    ],
)
def test_what_a_mode_does_where_no_rule_speaks(mode: PermissionMode, expected: tuple[str, ...], tmp_path: Path) -> None:
    verdicts = [
        call(*one, rules(), tmp_path, mode=mode, sandboxed=sandboxed)
        for one, sandboxed in (
            *((EDIT, False), (OUTSIDE, False), (LOOK, False), (MAKE, False)),
            *((MAKE, True), (FETCH, False), (MCP, False), (SPAWN, False)),
        )
    ]
    got = [f"look, {verdict.action}" if verdict.look else verdict.action for verdict in verdicts]
    assert tuple(got) == expected
    assert call("Read", {"file_path": "a"}, rules(), tmp_path, mode=mode).action == "allow"


@pytest.mark.parametrize("mode", get_args(PermissionMode))
def test_a_deny_and_a_question_survive_every_mode(mode: PermissionMode, tmp_path: Path) -> None:
    for rule, one in (
        ("Edit(a)", EDIT),
        ("Bash(make:*)", MAKE),
        ("WebFetch", FETCH),
        ("mcp__a", MCP),
        ("Agent(x)", SPAWN),
    ):
        everything = rules(allow=("Edit", "Bash", "WebFetch", "mcp__a", "Agent"))
        denied = call(*one, everything + rules(deny=(rule,)), tmp_path, mode=mode, sandboxed=True)
        assert denied.action == "deny" and denied.rule is not None, (rule, denied)
        asked = call(*one, everything + rules(ask=(rule,)), tmp_path, mode=mode, sandboxed=True)
        assert asked.action in ("ask", "deny") and (mode in ("plan", "dontAsk") or asked.action == "ask")


def test_a_link_in_the_plan_files_place_is_no_plan_file(tmp_path: Path) -> None:
    plan, code = tmp_path / ".swarm" / "plans" / "p.md", tmp_path / "code.py"
    plan.parent.mkdir(parents=True)
    code.write_text("")
    plan.symlink_to(code)
    for name in (str(plan), "code.py"):
        assert call("Write", {"file_path": name}, rules(), tmp_path, mode="plan", plan_file=plan).action == "deny"
    plan.unlink()
    plan.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    plan.parent.symlink_to(tmp_path / "elsewhere")
    assert call("Write", {"file_path": str(plan)}, rules(), tmp_path, mode="plan", plan_file=plan).action == "deny"


def test_plan_mode_writes_the_plan_file_and_nothing_else(tmp_path: Path) -> None:
    plan = tmp_path / "plans" / "p.md"
    plan.parent.mkdir()
    (tmp_path / "alias.md").symlink_to(plan)
    everything = rules(allow=("Edit", "Bash"))
    written = call("Write", {"file_path": "plans/p.md"}, rules(), tmp_path, mode="plan", plan_file=plan)
    assert written.action == "allow"
    for tool, given_ in (
        EDIT,
        MAKE,
        ("Write", {"file_path": "alias.md"}),
        ("Write", {"file_path": "plans/p.md.x"}),
        MCP,
    ):
        assert call(tool, given_, everything, tmp_path, mode="plan", plan_file=plan).action == "deny", given_
    assert (
        call("Bash", {"command": f"echo > {plan}"}, everything, tmp_path, mode="plan", plan_file=plan).action == "deny"
    )
    assert call(*MAKE, rules(), tmp_path, mode="plan", read_only_sandbox=True).action == "allow"
    denied = call("Write", {"file_path": str(plan)}, rules(deny=("Write",)), tmp_path, mode="plan", plan_file=plan)
    assert denied.action == "deny"


def test_files_that_tools_obey_are_asked_about_in_spite_of_rules_and_modes(tmp_path: Path) -> None:
    for path in (".claude/settings.json", "x/.git/config", ".swarm/settings.json", ".bashrc", "opencode.json"):
        for mode in ("default", "acceptEdits"):
            verdict = call("Write", {"file_path": path}, rules(allow=("Edit",)), tmp_path, mode=mode)  # type: ignore[arg-type]
            assert verdict.action == "ask", path
        for command in (f"echo x > {path}", f"cp x {path}", f"tee {path}"):
            shell = call("Bash", {"command": command}, rules(), tmp_path, mode="acceptEdits", sandboxed=True)
            assert shell.action == "ask", command
    assert call("Write", {"file_path": ".gitignore"}, rules(), tmp_path, mode="acceptEdits").action == "allow"


def test_a_child_is_at_most_as_permissive_as_its_parent() -> None:
    assert set(MODES) == set(get_args(PermissionMode))
    for parent in MODES:
        assert at_most("plan", parent) == "plan" == at_most(parent, "plan")
        assert at_most(parent, parent) == parent
        for child in MODES:
            assert MODES.index(at_most(child, parent)) <= MODES.index(parent)
            for stricter in MODES[: MODES.index(parent)]:
                assert MODES.index(at_most(child, stricter)) <= MODES.index(at_most(child, parent))


@given(
    st.sampled_from([EDIT, OUTSIDE, LOOK, MAKE, MCP, SPAWN]),
    st.sampled_from(MODES),
    st.sampled_from(MODES),
    st.booleans(),
)
def test_a_stricter_mode_never_allows_more(
    one: tuple[str, dict[str, Any]], mode: PermissionMode, other: PermissionMode, sandboxed: bool
) -> None:
    workspace = Path("/nonexistent")
    strict, mild = sorted((mode, other), key=MODES.index)
    for known in (rules(), rules(allow=("Bash", "Edit")), rules(deny=("Bash",), ask=("Edit",))):
        stricter = call(*one, known, workspace, mode=strict, sandboxed=sandboxed)
        milder = call(*one, known, workspace, mode=mild, sandboxed=sandboxed)
        assert (stricter.action == "allow") <= (milder.action == "allow")


@pytest.mark.parametrize(
    ("tool", "given_", "text", "other"),
    [
        ("Bash", {"command": "npm test -- x"}, "Bash(npm test -- x)", {"command": "npm test -- y"}),
        ("Bash", {"command": "npm run build"}, "Bash(npm run build)", {"command": "npm run build -- x"}),
        ("Bash", {"command": "uv run python a.py"}, "Bash(uv run python a.py)", {"command": "uv run python -c x"}),
        ("Bash", {"command": "npm exec node a.js"}, "Bash(npm exec node a.js)", {"command": "npm exec node b.js"}),
        ("Bash", {"command": "gh pr comment 1"}, "Bash(gh pr comment 1)", {"command": "gh pr comment 2"}),
        ("Bash", {"command": "gh api graphql"}, "Bash(gh api graphql)", {"command": "gh api graphql -X DELETE"}),
        ("Bash", {"command": "git stash push"}, "Bash(git stash push)", {"command": "git stash push -m x"}),
        ("Bash", {"command": "git fetch origin"}, "Bash(git fetch origin:*)", {"command": "git fetch other"}),
        ("Bash", {"command": "git add src"}, "Bash(git add:*)", {"command": "git add -e"}),
        ("Bash", {"command": "git push origin main"}, "Bash(git push origin:*)", {"command": "git push origin +main"}),
        (
            "Bash",
            {"command": "git push -f origin x"},
            "Bash(git push -f origin x)",
            {"command": "git push -f origin y"},
        ),
        ("Bash", {"command": "pytest -q tests"}, "Bash(pytest:*)", {"command": "pytest -p evil"}),
        ("Bash", {"command": "rm *.pyc"}, r"Bash(rm \*.pyc)", {"command": "rm x.pyc"}),
        ("Bash", {"command": "rm $X '*'"}, r"Bash(rm $X '\*')", {"command": "rm y '*'"}),
        ("Bash", {"command": "npm test && make"}, "Bash(npm test && make)", {"command": "make"}),
        ("Bash", {"command": "npm test > x"}, "Bash(npm test > x)", {"command": "npm test > y"}),
        ("Bash", {"command": "sudo npm test"}, "Bash(sudo npm test)", {"command": "sudo npm"}),
        ("Bash", {"command": "git -C x push"}, "Bash(git -C x push)", {"command": "git push"}),
        ("Bash", {"command": "echo a\nmake"}, "Bash(echo a\nmake)", {"command": "make"}),
        (
            "Bash",
            {"command": "find . -name \\*.x -delete"},
            r"Bash(find . -name \\*.x -delete)",
            {"command": "find . -delete"},
        ),
        ("Edit", {"file_path": "src/a.py"}, "Edit(/src/**)", {"file_path": "b.py"}),
        ("Edit", {"file_path": "a[1].py"}, r"Edit(/a\[1\].py)", {"file_path": "a1.py"}),
        ("Write", {"file_path": "/tmp/zz/a"}, "Write(//tmp/zz/**)", {"file_path": "tmp/zz/a"}),
        ("WebFetch", {"url": "https://x.org/a"}, "WebFetch(domain:x.org)", {"url": "https://y.org"}),
        ("mcp__a__b", {}, "mcp__a__b", None),
    ],
)
def test_an_approval_for_good_allows_this_call_and_little_more(
    tool: str, given_: dict[str, Any], text: str, other: dict[str, Any] | None, tmp_path: Path
) -> None:
    rule = always_rule(tool, given_, workspace=tmp_path)
    assert rule.text == text
    known = Rules(rules=(rule,))
    assert call(tool, given_, known, tmp_path).action == "allow"
    if other is not None:
        assert call(tool, other, known, tmp_path).action == "ask"


def test_an_approval_for_good_means_the_command_as_it_stands(tmp_path: Path) -> None:
    for given_, others in (
        ("./deploy.sh", ("cd evil && ./deploy.sh", "cat evil | ./deploy.sh", "./deploy.sh < evil")),
        (
            "git commit -m x",
            ("git commit", "git commit --amend -m y", "git commit -m $(cat f)", "cd a && git commit -m y"),
        ),
        (
            "git fetch origin",
            ("git fetch --depth=$(cat f) origin", "git fetch origin +x", "git fetch --upload-pack=x origin"),
        ),
        ("pytest -q tests", ("pytest -k $(cat f)", "pytest -m *", "cd /etc && pytest -q tests", "pytest ../x")),
    ):
        known = Rules(rules=(always_rule("Bash", {"command": given_}, workspace=tmp_path),))
        assert call("Bash", {"command": given_}, known, tmp_path).action == "allow"
        for other in others:
            assert call("Bash", {"command": other}, known, tmp_path).action == "ask", (given_, other)


# -- definitions ------------------------------------------------------------------------------------------


def define(tools: list[str] | None, disallowed: list[str] | None = None) -> Rules:
    return definition_rules(
        AgentDefinition(name="x", description="d", prompt="p", tools=tools, disallowed_tools=disallowed or [])
    )


def test_a_definition_limits_a_tool_to_what_it_lists(tmp_path: Path) -> None:
    known = define(["Read", "Bash(git log:*)", "Bash(git diff *)", "Agent(explore, plan)"]) + rules(
        allow=("Bash", "Edit")
    )
    for command in ("git log -3", "git diff x && git log", "timeout 5 git log", "git log > /dev/null"):
        assert call("Bash", {"command": command}, known, tmp_path).action == "allow", command
    for command in (
        "ls",
        "git log | head",
        "git log; make",
        "git log $(make)",
        "git log > x",
        "$X",
        "git log > $X",
        "",
    ):
        verdict = call("Bash", {"command": command}, known, tmp_path, mode="bypassPermissions")
        assert verdict.action == "deny", command
    assert "only Bash(git log:*), Bash(git diff *)" in call("Bash", {"command": "ls"}, known, tmp_path).reason
    assert call("Agent", {"subagent_type": "plan"}, known, tmp_path).action == "allow"
    assert call("Agent", {"subagent_type": "worker"}, known, tmp_path).action == "deny"


def test_a_definition_denies_what_it_disallows_and_allows_nothing_by_itself(tmp_path: Path) -> None:
    known = define(None, ["Bash(rm *)", "Write", "TodoWrite(nonsense"])
    assert call("Bash", {"command": "ls; rm x"}, known, tmp_path, mode="bypassPermissions").action == "deny"
    assert call("Write", {"file_path": "a"}, known, tmp_path, mode="bypassPermissions").action == "deny"
    assert call("TodoWrite", {}, known, tmp_path).action == "deny"
    assert call("Edit", {"file_path": "a"}, known, tmp_path).action == "ask"
    assert call("Bash", {"command": "make x"}, define(["Bash(make:*)"]), tmp_path).action == "ask"
    assert define(["Bash", "Bash(ls)"]) == Rules() == define(None)


def test_an_agent_of_opencode_keeps_its_questions_and_its_last_word(tmp_path: Path) -> None:
    entries = [
        ("bash", "*", "ask"),
        ("bash", "git *", "allow"),
        ("bash", "git push*", "deny"),
        ("edit", "docs/*", "deny"),
    ]
    definition = AgentDefinition(name="x", description="d", prompt="p", permission=entries)
    known = definition_rules(definition) + rules(allow=("Bash", "Edit"))
    for command, action in (("make", "ask"), ("git log", "allow"), ("git push x", "deny"), ("git log && make", "ask")):
        assert call("Bash", {"command": command}, known, tmp_path, mode="bypassPermissions").action == action, command
        assert call("Bash", {"command": command}, known, tmp_path, mode="acceptEdits", sandboxed=True).action == action
    assert call("Write", {"file_path": "docs/a"}, known, tmp_path).action == "deny"
    alone = definition_rules(definition)
    assert {rule.action for rule in alone.rules} == {"ask", "deny"}, "a definition spares no question"
    asked = AgentDefinition(name="x", description="d", prompt="p", permission=[("*", "*", "ask")])
    assert call("Read", {"file_path": "a"}, definition_rules(asked), tmp_path).action == "ask"
    assert call("TodoWrite", {}, definition_rules(asked), tmp_path).action == "allow"
