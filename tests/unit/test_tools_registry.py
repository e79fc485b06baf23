"""The registry of tools, its check of inputs, and TodoWrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from swarm.definitions.names import ALIASES, KNOWN_TOOLS
from swarm.errors import ToolError
from swarm.tools import registry
from swarm.tools.registry import builtin_tools, validate_input
from tests.tool_world import make_world

WITHOUT_EFFECTS = {"Read", "Glob", "Grep", "LS", "BashOutput", "TodoWrite"}


def test_every_tool_is_there_with_a_valid_schema_and_its_effects_are_declared() -> None:
    tools = builtin_tools()
    assert set(tools) == WITHOUT_EFFECTS | {"Write", "Edit", "Bash", "KillShell"}
    assert registry.TOOLS is tools
    for name, tool in tools.items():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.name == name and tool.activity is not None
        assert tool.effects is (name not in WITHOUT_EFFECTS)
        assert tool.schema()["input_schema"]["additionalProperties"] is False


def test_definitions_know_every_tool_and_each_of_its_names_leads_to_one() -> None:
    assert set(builtin_tools()) <= KNOWN_TOOLS
    assert set(ALIASES.values()) == KNOWN_TOOLS


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("Read", {}, "Read: the parameter 'file_path' is missing"),
        ("Read", {"path": "x"}, "Read: unknown parameter 'path'.*it takes: file_path, offset, limit"),
        ("Edit", {"file_path": "x", "old_str": "y"}, "did you mean 'old_string'"),
        ("Read", {"file_path": "x", "offset": 0}, "Read: offset: 0 is less than the minimum of 1"),
        ("Read", {"file_path": 3}, "Read: file_path: 3 is not of type 'string'"),
        ("Read", ["x"], "must be an object"),
        ("TodoWrite", {"todos": [{"content": "a", "status": "pending"}]}, r"in todos\[0\], .*'activeForm' is missing"),
    ],
)
def test_wrong_input_is_refused_in_one_clear_line(name: str, given: Any, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        validate_input(builtin_tools()[name], given)
    assert "\n" not in str(caught.value)


def test_a_huge_wrong_value_does_not_make_a_huge_message() -> None:
    with pytest.raises(ToolError) as caught:
        validate_input(builtin_tools()["Read"], {"file_path": ["x" * 100_000]})
    assert len(str(caught.value)) < 500


def test_activity_lines_name_what_a_call_is_about() -> None:
    tools = builtin_tools()
    read, bash = tools["Read"], tools["Bash"]
    assert read.activity and bash.activity
    assert read.activity({"file_path": "src/app.py"}) == "Read src/app.py"
    assert bash.activity({"command": "make\nmake test"}) == "make"
    assert len(bash.activity({"command": "x" * 500})) == 60


def test_todos_are_rendered(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    todos = [
        {"content": "Read the code", "status": "completed", "activeForm": "Reading the code"},
        {"content": "Fix the bug", "status": "in_progress", "activeForm": "Fixing the bug"},
        {"content": "Test it", "status": "pending", "activeForm": "Testing it"},
    ]
    text = world.call("TodoWrite", todos=todos).text
    assert text == "1 of 3 done\n[x] Read the code\n[>] Fix the bug\n[ ] Test it"
    activity = builtin_tools()["TodoWrite"].activity
    assert activity and activity({"todos": todos}) == "Fixing the bug"
    with pytest.raises(ToolError, match="2 todos are in_progress"):
        world.call("TodoWrite", todos=[todos[1], todos[1]])
