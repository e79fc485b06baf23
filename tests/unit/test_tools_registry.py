"""The registry of tools, its check of inputs, and TodoWrite.

Tests of swarm/tools/registry.py, swarm/tools/todo.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.core.errors import ToolError
from swarm.tools.registry import validate_input
from tests.tool_world import make_world, tool_named


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("Read", {}, "Read: the parameter 'file_path' is missing"),
        ("Read", {"path": "x"}, "Read: unknown parameter 'path'.*it takes: file_path, offset, limit"),
        ("Edit", {"file_path": "x", "old_str": "y"}, "did you mean 'old_string'"),
        ("Read", {"file_path": "x", "offset": 0}, "Read: offset: 0 is less than the minimum of 1"),
        ("Read", {"file_path": 3}, "Read: file_path: 3 is not of type 'string'"),
        ("Read", ["x"], "must be an object"),
        ("Agent", {"description": "x", "prompt": ""}, "Agent: prompt: '' should be non-empty"),
        ("TodoWrite", {"todos": [{"content": "a", "status": "pending"}]}, r"in todos\[0\], .*'activeForm' is missing"),
    ],
)
def test_wrong_input_is_refused_in_one_clear_line(name: str, given: Any, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        validate_input(tool_named(name), given)
    assert "\n" not in str(caught.value)


def test_a_huge_wrong_value_does_not_make_a_huge_message() -> None:
    with pytest.raises(ToolError) as caught:
        validate_input(tool_named("Read"), {"file_path": ["x" * 100_000]})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "given", "line"),
    [
        ("Read", {"file_path": "src/app.py"}, "Read src/app.py"),
        ("Bash", {"command": "make\nmake test"}, "make"),
        ("Bash", {"command": "x" * 500}, "x" * 59 + "…"),
        ("Grep", {"pattern": "a b", "path": "src"}, "Grep a b"),
        ("Agent", {"description": "find callers", "prompt": "…"}, "Agent find callers"),
        ("SendMessage", {"to": "ada", "message": "{to}"}, "SendMessage to ada"),
        ("AskUserQuestion", {"question": "Which?\nThis?"}, "asking: Which? This?"),
        ("BoardList", {}, "BoardList"),
        ("WaitAgents", {"timeout_seconds": 60}, "waiting for agents"),
        ("Read", ["no", "object"], "Read"),
        ("TodoWrite", {"todos": 3}, "TodoWrite"),
    ],
)
def test_activity_lines_name_what_a_call_is_about(name: str, given: Any, line: str) -> None:
    assert tool_named(name).describe_call(given) == line


def test_todos_are_rendered(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    todos = [
        {"content": "Read the code", "status": "completed", "activeForm": "Reading the code"},
        {"content": "Fix the bug", "status": "in_progress", "activeForm": "Fixing the bug"},
        {"content": "Test it", "status": "pending", "activeForm": "Testing it"},
    ]
    text = world.call("TodoWrite", todos=todos).text
    assert text == "1 of 3 done\n[x] Read the code\n[>] Fix the bug\n[ ] Test it"
    assert tool_named("TodoWrite").describe_call({"todos": todos}) == "Fixing the bug"
    with pytest.raises(ToolError, match="2 todos are in_progress"):
        world.call("TodoWrite", todos=[todos[1], todos[1]])
