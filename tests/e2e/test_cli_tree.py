"""How the command folds a tree into a terminal, and writes values for people.

Tests of swarm/cli/options.py, swarm/cli/output.py, swarm/cli/tree_fold.py.
"""

from __future__ import annotations

import io

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from swarm.cli.options import parse_duration
from swarm.cli.output import one_line, plain, show_cost, show_count, show_duration, show_time
from swarm.cli.tree_fold import fold_tree
from swarm.cli.tree_view import render_tree
from swarm.core.records import State
from swarm.streaming.live.rows import Row
from tests.rows import make_row

_STATES: tuple[State, ...] = ("queued", "running", "parked", "completed", "failed", "cancelled", "timed_out")


def _agent(number: int, parent: int | None, state: State = "running", label: str = "") -> Row:
    given = {"state": state, "label": label or f"explore: part {number}", "created": number, "turns": 1, "output": 10}
    return make_row(f"agent-{number}", parent=None if parent is None else f"agent-{parent}", **given)


@st.composite
def _trees(draw: st.DrawFn) -> list[Row]:
    size = draw(st.integers(1, 80))
    agents = [_agent(0, None, draw(st.sampled_from(_STATES)))]
    for number in range(1, size):
        agents.append(_agent(number, draw(st.integers(0, number - 1)), draw(st.sampled_from(_STATES))))
    return agents


@given(_trees(), st.integers(1, 100))
def test_a_folded_tree_fits_and_begins_with_the_root(agents: list[Row], room: int) -> None:
    rows = fold_tree(agents, room)
    assert 1 <= len(rows) <= room
    assert rows[0].agent is agents[0] or room == 1
    shown = [row.agent["id"] for row in rows if row.agent is not None]
    assert len(shown) == len(set(shown))


@given(_trees())
def test_without_a_limit_every_agent_has_its_line(agents: list[Row]) -> None:
    assert sorted(row.agent["id"] for row in fold_tree(agents) if row.agent) == sorted(agent["id"] for agent in agents)


def test_what_is_over_is_folded_before_what_runs() -> None:
    agents = [_agent(0, None, "parked"), _agent(1, 0, "completed"), _agent(2, 0, "running")]
    agents += [_agent(number, 1, "completed") for number in range(3, 9)]
    rows = fold_tree(agents, 4)
    assert [(row.agent["id"], row.below) for row in rows if row.agent] == [
        ("agent-0", 0),
        ("agent-1", 6),
        ("agent-2", 0),
    ]


def test_many_that_are_over_share_one_line() -> None:
    agents = [_agent(0, None, "parked"), _agent(1, 0, "running")]
    agents += [_agent(number, 0, "completed") for number in range(2, 40)] + [_agent(40, 0, "failed")]
    rows = fold_tree(agents, 5)
    assert [row.summary for row in rows if row.agent is None] == ["38 completed, 1 failed"]
    assert "agent-1" in [row.agent["id"] for row in rows if row.agent]


def test_no_label_can_steer_the_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=False)
    console.print(render_tree([_agent(0, None, label="x\x1b]0;owned\x07\x9b2J: [red]y[/red]\nz")], console))
    assert "\x1b" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()
    assert "\x9b" not in stream.getvalue()
    assert "[red]y[/red] z" in stream.getvalue()


def test_values_are_short() -> None:
    assert [show_count(n) for n in (0, 999, 1_000, 12_345, 999_949, 999_950, 4_100_000)] == (
        ["0", "999", "1.0k", "12.3k", "999.9k", "1.0M", "4.1M"]
    )
    assert [show_duration(s) for s in (-1, 4.21, 59.96, 65, 3_599.6, 7_380, 273_600)] == (
        ["0.0s", "4.2s", "1m00s", "1m05s", "1h00m", "2h03m", "3d04h"]
    )
    assert [show_time(s) for s in (30, 300, 90, 3_600, 172_800, 5_400)] == ["30s", "5m", "1m30s", "1h", "2d", "1h30m"]
    assert [show_cost(c) for c in (0, 0.00123, 12.345)] == ["$0", "$0.0012", "$12.35"]
    assert plain("a\tb\r\nc\x00") == "a    b\nc\\u0000"
    assert one_line("a\n b" * 100, 10) == "a ba ba b…"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7_200), ("1h30m", 5_400), ("1.5m", 90)]
)
def test_a_duration_is_read_with_or_without_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "5w", "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


def test_phases_have_lines_with_their_sums_and_ended_ones_are_folded_into_them() -> None:
    agents = [_agent(0, None, "parked")]
    phases = [("look", "completed"), ("look", "failed"), ("", "running"), ("write", "running"), ("write", "completed")]
    for number, (phase, state) in enumerate(phases, 1):
        given = {"state": state, "label": f"part {number}", "created": number, "output": 10, "phase": phase}
        agents.append(make_row(f"agent-{number}", parent="agent-0", **given))
    agents.append(_agent(6, 1, "completed"))
    console = Console(file=(stream := io.StringIO()), width=80, force_terminal=False)
    console.print(render_tree(agents, console))
    assert [line.strip(" │├└─").split("  ")[0] for line in stream.getvalue().splitlines()][1:-1] == [
        *("● part 3", "look", "✔ part 1", "✔ explore: part 6", "✘ part 2", "write", "● part 4", "✔ part 5")
    ]
    assert "look  2 of 2, 1 failed" in stream.getvalue() and "30 tok" in stream.getvalue()
    folded = fold_tree(agents, 6)
    assert [(row.phase, row.below) for row in folded if row.phase] == [("look", 3), ("write", 0)]
    assert fold_tree(agents, 3)[-1].summary == "and 5 more"
