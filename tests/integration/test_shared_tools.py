"""Calls of the tools for board, scratchpad and team as a running agent makes them, against a real Redis.

Tests of swarm/capabilities/team/board_tools.py, swarm/capabilities/team/scratchpad_tools.py, swarm/capabilities/team/team_tools.py,
swarm/runtime/toolbox.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from swarm.agent.entries import Prompt, Started, ToolFinished
from swarm.runtime.parts import Parts
from swarm.runtime.toolbox import Toolbox
from swarm.store.store import Store
from swarm.tools.registry import offered_tools
from tests.fleet import Fleet
from tests.job_world import JobWorld
from tests.segments import make_segment


class Caller:
    """A job's root, and its calls."""

    def __init__(self, store: Store, unmanned: Fleet) -> None:
        self.world = JobWorld(store, unmanned, team=False)
        segment = make_segment(self.world.claims["root"], store)
        tools = [tool.schema() for tool in offered_tools()]
        segment.journal.append([Started(spec=self.world.spec, tools=tools), Prompt(text="go")])
        self.toolbox = Toolbox(Parts(segment))

    def call(self, name: str, /, **given: Any) -> ToolFinished:
        return self.toolbox.run({"type": "tool_use", "id": self.world.cause(), "name": name, "input": given})

    def text(self, name: str, /, **given: Any) -> str:
        result = self.call(name, **given)
        assert not result.is_error, result.text
        return result.text


@pytest.fixture
def caller(unmanned: Fleet, store: Store) -> Caller:
    return Caller(store, unmanned)


def test_a_task_goes_from_hand_to_hand_by_calls_alone(caller: Caller) -> None:
    assert caller.text("BoardAdd", subject="first") == "Added as task 1."
    assert caller.text("BoardAdd", subject="second", role="tester", blocked_by=[1]) == "Added as task 2."
    second = caller.world.task(2)
    assert (second.subject, second.role, second.blocked_by) == ("second", "tester", [1])
    caller.text("BoardClaim")
    assert caller.world.task(1).owner == caller.world.root
    caller.text("BoardUpdate", task_id=1, owner="")
    assert caller.world.task(1).owner is None
    caller.text("BoardClaim", task_id=1)
    caller.text("BoardComplete", task_id=1, result="it is done")
    assert [task.state for task in caller.world.board.tasks()] == ["completed", "pending"]
    assert "it is done" in caller.text("BoardList", task_id=1)
    assert "first" not in caller.text("BoardList", state="pending")


def test_a_page_is_written_lengthened_and_deleted_by_calls_alone(caller: Caller) -> None:
    caller.text("ScratchpadWrite", page="a", content="x", if_version=0)
    assert "exists already" in caller.call("ScratchpadWrite", page="a", content="z", if_version=0).text
    caller.text("ScratchpadAppend", page="a", content="y")
    view, text = caller.world.pad.read("a")
    assert text == "xy"
    assert "- a: 2 bytes" in caller.text("ScratchpadList")
    assert caller.call("ScratchpadWrite", page="a", delete=True, if_version=view.version + 1).is_error
    caller.text("ScratchpadWrite", page="a", delete=True, if_version=view.version)
    assert caller.world.pad.pages() == []


def test_a_page_is_read_by_lines_with_their_numbers(caller: Caller) -> None:
    caller.text("ScratchpadWrite", page="a", content="")
    assert caller.text("ScratchpadRead", page="a").endswith("; it is empty]")
    caller.text("ScratchpadWrite", page="a", content="\n".join(f"line {n}" for n in range(1, 11)))
    head, *lines = caller.text("ScratchpadRead", page="a", offset=3, limit=2).splitlines()
    assert head.startswith("[a, version 2, ")
    assert lines == ["     3\tline 3", "     4\tline 4", "[… more follows; continue with offset=5]"]
    assert "the last line is 10" in caller.call("ScratchpadRead", page="a", offset=11).text


def test_a_team_is_founded_and_dissolved_by_calls_alone(caller: Caller) -> None:
    assert caller.call("TeamDelete").is_error
    caller.text("TeamCreate", name="crew", description="four hands")
    team = caller.world.teams.find()
    assert team is not None and team.name == "crew"
    caller.text("TeamDelete")
    assert caller.world.teams.find() is None
