"""The readers of definitions: names of tools, JSON with comments, and that no content whatever breaks them.

Tests of swarm/definitions/jsonc.py, swarm/definitions/names.py, swarm/definitions/sources.py, swarm/definitions/tool_lists.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.definitions.catalogue import check_path
from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.names import canonical_tool, is_known_tool, is_tool_entry, split_pattern
from swarm.definitions.opencode import read_opencode_config
from swarm.definitions.sources import MAX_FILE_BYTES, Problem, Unusable, list_files, read_text
from swarm.definitions.tool_lists import ToolLists, read_entries, split_entries


@pytest.mark.parametrize(
    ("given_name", "ours"),
    [
        ("read_file", "Read"),
        ("read", "Read"),
        ("list_dir", "LS"),
        ("list_files", "LS"),
        ("grep_search", "Grep"),
        ("run_shell", "Bash"),
        ("todowrite", "TodoWrite"),
        ("Task", "Agent"),
        ("spawn_agent", "Agent"),
        ("resume_agent", "Agent"),
        ("start_async_task", "Agent"),
        ("send_input", "SendMessage"),
        ("update_async_task", "SendMessage"),
        ("wait", "WaitAgents"),
        ("wait_agent", "WaitAgents"),
        ("close_agent", "StopAgent"),
        ("cancel_async_task", "StopAgent"),
        ("TaskStop", "StopAgent"),
        ("KillAgent", "StopAgent"),
        ("list_agents", "ListAgents"),
        ("check_async_task", "ReadAgent"),
        ("list_async_tasks", "ListAgents"),
        ("TaskCreate", "BoardAdd"),
        ("TaskList", "BoardList"),
        ("TaskGet", "BoardList"),
        ("TaskUpdate", "BoardUpdate"),
        ("board_claim", "BoardClaim"),
        ("exit-plan-mode", "ExitPlanMode"),
        ("webfetch", "WebFetch"),
        (" Bash ", "Bash"),
        ("bash(git log:*)", "Bash(git log:*)"),
        ("Bash(*)", "Bash"),
        ("Bash(:*)", "Bash"),
        ("task(explore, plan)", "Agent(explore, plan)"),
        ("mcp__github__*", "mcp__github__*"),
        ("Bash(echo (a))", "Bash(echo (a))"),
        ("SomethingElse", "SomethingElse"),
    ],
)
def test_other_systems_names_of_tools_become_ours(given_name: str, ours: str) -> None:
    assert canonical_tool(given_name) == ours
    assert canonical_tool(ours) == ours


def test_a_pattern_is_taken_apart_into_name_and_spec() -> None:
    assert split_pattern("Bash(git log:*)") == ("Bash", "git log:*")
    assert split_pattern("Bash") == ("Bash", None)
    assert split_pattern("Bash()") == ("Bash", None)


def test_known_tools_include_families_and_wildcards() -> None:
    assert all(is_known_tool(name) for name in ("Read", "Scratchpad*", "BoardClaim", "mcp__x__y", "Web*", "Bash(ls)"))
    assert not any(is_known_tool(name) for name in ("Raed", "github_*", "BoardClam", ""))
    assert is_tool_entry("Bash(git log:*)") and not is_tool_entry("Bash(git") and not is_tool_entry("(x)")


def test_lists_are_split_at_commas_and_spaces_outside_of_brackets() -> None:
    assert split_entries("Read, Bash(git log:*, git diff:*) Grep,,LS") == [
        "Read",
        "Bash(git log:*, git diff:*)",
        "Grep",
        "LS",
    ]


def test_a_denied_star_leaves_only_what_is_named() -> None:
    lists = ToolLists()
    lists.read_tools(["Read", "Bash(git log:*)", "Write"])
    lists.read_permission(read_entries({"*": "deny", "read": "allow", "bash": {"git log*": "allow"}}))
    lists.finish()
    assert lists.tools == ["Read", "Bash(git log:*)"]


def test_a_definition_that_names_thousands_of_tools_is_refused() -> None:
    lists = ToolLists()
    lists.read_disallowed([f"Tool{number}" for number in range(1_000)])
    with pytest.raises(Unusable, match="more than 500"):
        lists.finish()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_plain_json_means_the_same_to_the_reader_of_json_with_comments(value: object) -> None:
    assert parse_jsonc(json.dumps(value)) == value
    assert parse_jsonc(f"// first\n{json.dumps(value, indent=1)} /* last */") == value


@pytest.mark.parametrize(
    "text", ['{"a": "' + '\\"' * 200_000, "/*" * 200_000, "[" * 200_000, "9" * 10_000, '{"a": 1,,}']
)
def test_json_that_never_ends_is_refused_at_once(text: str) -> None:
    with pytest.raises(Unusable):
        parse_jsonc(text)


_YAML_PIECES = st.sampled_from(
    [
        *("name", "tools", "permission", "readOnly", "resultSchema", "maxTurns", "deny", "Read", "2024-13-45", ".nan"),
        *(": ", ":", "\n", "\n  ", "\n- ", "\r\n", "\t", "---\n", "? ", "*", "&a ", "!!int ", "!!timestamp x"),
        *("{", "}", "[", "]", "|", "'", '"', "#", "\x00", "é", "0x" + "f" * 5_000),
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def test_an_agent_of_opencode_2_is_limited_by_its_list_of_permissions(tmp_path: Path) -> None:
    rules = [("*", "*", "allow"), ("edit", "*", "deny"), ("shell", "git push *", "ask")]
    listed = [dict(zip(("action", "resource", "effect"), one, strict=True)) for one in rules]
    config = {
        "agents": {"a": {"description": "x", "system": "Work.", "permissions": listed}},
        "permissions": listed[:1],
    }
    (tmp_path / "opencode.json").write_text(json.dumps(config))
    found = read_opencode_config(tmp_path / "opencode.json", bases={}, root=tmp_path)
    assert found.problems == []
    [one] = found.definitions
    assert {"Edit", "Write"} <= set(one.disallowed_tools) and one.permission[-1] == ("shell", "git push *", "ask")


_OPENCODE_KEYS = ["tools", "permission", "prompt", "mode", "model", "steps", "disable", "resultSchema", "description"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(_YAML_PIECES | st.text(max_size=5), max_size=30).map("".join),
    name=st.sampled_from(["x.md", "opencode/x.md", "x.toml", "config.toml", "x.json"]),
)
def test_no_content_whatever_breaks_a_reader(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    head = {".md": "---\n", ".json": '{"agent": {"x": ', ".toml": ""}[path.suffix]
    tail = {".md": "\n---\nWork.\n", ".json": "}}", ".toml": ""}[path.suffix]
    for content in (text, head + text + tail):
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        result = check_path(path)
        assert json.loads(result.model_dump_json()) is not None
        assert name != "x.md" or result.definitions or result.problems or result.disabled


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(_OPENCODE_KEYS), value=_JSON)
def test_no_value_of_a_key_breaks_the_reader_of_opencode(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({"agent": {"x": {"prompt": "Work.", "description": "d", key: value}}}))
    result = check_path(path)
    assert len(result.definitions) + len(result.problems) + len(result.disabled) == 1
    result.model_dump_json()


def test_a_key_with_a_number_of_many_digits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'name = 0x{"f" * 9_000}\ndescription = "d"\ndeveloper_instructions = "w"\n')
    (problem,) = check_path(path).problems
    assert "too long" in problem.message


def test_a_file_of_more_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.md"
    path.write_bytes(b"---\nname: big\ndescription: d\n---\n" + b"x" * MAX_FILE_BYTES)
    (problem,) = check_path(path).problems
    assert "1 MiB" in problem.message


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.md"
    os.mkfifo(path)
    with pytest.raises(Unusable, match="not a regular file"):
        read_text(path)


def test_a_missing_path_is_a_problem_that_says_so(tmp_path: Path) -> None:
    (problem,) = check_path(tmp_path / "none.md").problems
    assert "No such file" in problem.message


def test_links_are_followed_and_loops_of_links_end(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a.md").write_text("x")
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "more").symlink_to(shared)
    (shared / "back").symlink_to(agents)
    (agents / "b.md").symlink_to(shared / "a.md")
    (agents / "self.md").symlink_to(agents / "self.md")
    (agents / ".hidden.md").write_text("x")
    assert [path.relative_to(agents).as_posix() for path in list_files(agents, (".md",), [])] == [
        "b.md",
        "more/a.md",
        "self.md",
    ]


def test_a_folder_of_absurd_size_is_refused_as_a_whole(tmp_path: Path) -> None:
    for number in range(5_001):
        (tmp_path / f"{number}.md").touch()
    problems: list[Problem] = []
    assert list_files(tmp_path, (".md",), problems) == []
    assert "5000 entries" in str(problems[0])


def test_warnings_of_a_hopeless_file_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    keys = "\n".join(f"key{number}: 1" for number in range(60))
    typing_errors = ", ".join(f"Read{number}" for number in range(30))
    path.write_text(f"---\nname: x\ndescription: d\ntools: {typing_errors}\n{keys}\n---\nWork.\n")
    (definition,) = check_path(path).definitions
    assert len(definition.warnings) == 21 and definition.warnings[-1] == "and 12 more"
    assert all(len(warning) < 300 for warning in definition.warnings)


@pytest.mark.parametrize(
    ("name", "spelt"),
    [("../../etc/passwd", "etc-passwd"), ("a" * 80, "a" * 64), ("é", "x"), ("ünïcode name", "n-code-name")],
)
def test_a_name_that_cannot_be_used_is_spelt_in_letters_that_can(tmp_path: Path, name: str, spelt: str) -> None:
    path = tmp_path / "x.md"
    path.write_text(f"---\nname: {name}\ndescription: d\n---\nWork.\n")
    (definition,) = check_path(path).definitions
    assert definition.name == spelt
    assert any(f"is written {spelt!r} here" in warning for warning in definition.warnings)
