"""`swarm run` on a real (pseudo-)terminal: the living tree, and what Ctrl-C asks.

Tests of swarm/cli/display.py.
"""

from __future__ import annotations

import pytest

from tests.e2e.cli_world import World
from tests.e2e.terminal import Terminal

SLOW = "TREE depth=1 fanout=2 steps=25 think=700"


def test_a_terminal_shows_the_tree_and_its_totals(world: World) -> None:
    terminal = Terminal(
        world, "run", "--rehearse", "tree", "-w", str(world.workspace), "TREE depth=1 fanout=2 steps=3 think=300"
    )
    terminal.wait_for("├─")
    code, text = terminal.finish()
    assert code == 0
    assert "tree branch 0" in text
    assert "3 completed" in text
    assert "DONE 3" in text
    assert world.processes() == []


@pytest.mark.long
def test_an_interrupt_asks_and_can_be_taken_back_and_can_cancel(world: World) -> None:
    terminal = Terminal(world, "run", "--rehearse", "tree", "-w", str(world.workspace), SLOW)
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("r\n")
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("\x03")  # the same again means it
    code, text = terminal.finish()
    assert code == 130
    assert "cancelled" in text
    assert world.processes() == []
    (job,) = world.read_json("jobs", "--json")
    assert job["state"] == "cancelled"


@pytest.mark.long
def test_detaching_leaves_the_job_on_the_queue(world: World) -> None:
    terminal = Terminal(world, "run", "--rehearse", "tree", "-w", str(world.workspace), SLOW)
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("d\n")
    code, text = terminal.finish()
    assert code == 130
    assert "detached from job-" in text
    assert world.processes() == []
    (job,) = world.read_json("jobs", "--json")
    assert job["ended_at"] is None
