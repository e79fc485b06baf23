"""What the commands show on terminals of 60 to 200 columns, word for word, and that nothing that must be typed is cut.

`SWARM_UPDATE_SNAPSHOTS=1 pytest tests/unit/test_cli_widths.py` writes the pictures anew, to be read before they are committed.

Tests of swarm/cli/definitions.py, swarm/cli/jobs.py, swarm/cli/questions.py, swarm/cli/screens/lines.py, swarm/cli/tables.py,
swarm/cli/live_editor.py, swarm/cli/tree_view.py.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from swarm.cli.definitions import table_of_definitions
from swarm.cli.jobs import table_of_jobs
from swarm.cli.live_editor import draw_typed
from swarm.cli.questions import table_of_questions
from swarm.cli.screens.lines import job_line
from swarm.cli.tables import Column, lay_out
from swarm.cli.tree_view import render_tree
from swarm.core.records import JobView
from swarm.core.usage import Usage
from swarm.definitions.catalogue import load_catalogue
from swarm.store.questions import Question
from swarm.streaming.live.rows import Row
from tests.rows import make_row

WIDTHS = (60, 80, 120, 200)
NOW = 1_800_000_000.0
FOLDER = Path(__file__).with_name("snapshots")


def _id(kind: str, number: int) -> str:
    return f"{kind}-{number:016x}"


def _agent(number: int, parent: int | None, state: str, label: str, **given: Any) -> Row:
    record: dict[str, Any] = {
        **{"parent": None if parent is None else _id("agent", parent), "state": state, "label": label},
        **{"input": 9_000, "output": 100, "cost": 3_200_000, "turns": 2, "tools": 3, "created": NOW - 60},
        **{"started": NOW - 50, "ended": NOW - 20 if state in ("completed", "failed") else None},
    }
    return make_row(_id("agent", number), **{**record, **given})


AGENTS = [
    _agent(1, None, "parked", "build: Find every call of legacy_login in this repository and say what replaces it"),
    _agent(2, 1, "completed", "general-purpose: search the services folder"),
    _agent(3, 1, "running", "general-purpose: search the web folder", activity="Grep legacy_login in web/**/*.py"),
    _agent(4, 1, "parked", "general-purpose: check", activity="waiting for the model (connection refused)", name="ada"),
    _agent(5, 1, "queued", "general-purpose: search the jobs folder", started=None, turns=0),
    _agent(6, 1, "failed", "code-reviewer: look at it all", reason="the model refused to answer"),
]


def _job(number: int, state: str, title: str, **given: Any) -> JobView:
    fields: dict[str, Any] = {"created_at": NOW - 200 * number, "ended_at": NOW - 100 * number, "agents": 12}
    return JobView(
        **{"id": _id("job", number), "state": state, "title": title, "cost_usd": 1.25, **fields, **given},
        usage=Usage(input_tokens=283_100),
    )


JOBS = [
    _job(1, "running", "Find every call of legacy_login in this repository and say what replaces it", ended_at=None),
    _job(2, "completed", "hello", rehearsed=True, cost_usd=0.0),
    _job(30, "cancelled", "Describe this workspace"),
    _job(900, "completed", "Translate the manual into seven languages", stopped_at="tokens"),
]
QUESTIONS = [
    Question(
        **{"id": _id("question", number), "job_id": _id("job", 1), "agent_id": _id("agent", 3), "label": label},
        **{"tool": "Bash", "kind": kind, "title": title, "detail": "", "to": "", "state": "open"},
        **{"asked_at": NOW, "expires_at": NOW + 1_800},
    )
    for number, kind, label, title in (
        (1, "permission", "general-purpose: search", "Bash git push --force origin main:release-candidate"),
        (2, "plan", "build: Find every call", "Replace legacy_login everywhere"),
        (3, "question", "build: Find every call", "Which language is the greeting to be in?"),
    )
]


JOB_ROW: dict[str, Any] = {
    **{"id": _id("job", 1), "title": JOBS[0].title, "state": "running", "group": "running", "created_at": NOW - 200},
    **{"questions": 0, "running": 4, "agents": 12, "cost_usd": 1.25, "unpriced_tokens": 0, "rehearsed": False},
}


def _jobs(console: Console) -> None:
    table_of_jobs(Counter({JOBS[0].id: 2}), NOW).print(JOBS, console)


def _questions(console: Console) -> None:
    table_of_questions(closed=False, now=NOW).print(QUESTIONS, console)


def _tree(console: Console) -> None:
    console.print(render_tree(AGENTS, console, show_ids=True, now=NOW))


def _run(console: Console) -> None:
    console.print(render_tree(AGENTS, console, room=20, job_id=_id("job", 1), now=NOW))


def _attach(console: Console) -> None:
    console.print(render_tree(AGENTS, console, room=20, job_id=_id("job", 1), now=NOW))
    console.print(draw_typed("", console.width))
    console.print(draw_typed("tell me what you have found so far, and above all " * 5, console.width))


def _top(console: Console) -> None:
    for row in (JOB_ROW, {**JOB_ROW, "id": _id("job", 2), "questions": 2, "group": "needs_you", "rehearsed": True}):
        console.print(job_line(row, NOW), no_wrap=True, overflow="ellipsis")


def _agents(console: Console) -> None:
    definitions = load_catalogue(None).definitions
    told = [one.model_copy(update={"source": "shipped"}) for _, one in sorted(definitions.items())]
    table_of_definitions(Path("/work")).print(told, console)


PICTURES: dict[str, tuple[Callable[[Console], None], list[str]]] = {
    "jobs": (_jobs, [view.id for view in JOBS]),
    "questions": (_questions, [question.id for question in QUESTIONS]),
    "tree": (_tree, [agent["id"] for agent in AGENTS]),
    "run": (_run, [_id("job", 1)]),
    "attach": (_attach, [_id("job", 1), "Ctrl-D"]),
    "top": (_top, [_id("job", 1), _id("job", 2)]),
    "agents": (_agents, ["build", "general-purpose", "code-reviewer", "researcher"]),
}


def _draw(picture: Callable[[Console], None], width: int) -> str:
    shown = io.StringIO()
    picture(Console(file=shown, width=width, force_terminal=True, color_system=None, legacy_windows=False))
    return "\n".join(line.rstrip() for line in shown.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_as_it_was_fits_and_keeps_the_words_to_type(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_SANDBOX", "off")  # whether one works is found out by starting processes
    picture, to_type = PICTURES[name]
    shown, kept = _draw(picture, width), FOLDER / f"{name}-{width}.txt"
    if os.environ.get("SWARM_UPDATE_SNAPSHOTS"):
        kept.write_text(shown, encoding="utf-8")
    assert shown == kept.read_text(encoding="utf-8")
    assert max(map(cell_len, shown.splitlines())) <= width
    assert [word for word in to_type if word not in shown] == []


def test_what_is_no_terminal_gets_whole_lines() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=4_000, force_terminal=False)
    _tree(console)
    _jobs(console)
    text = shown.getvalue()
    assert JOBS[0].title in text and AGENTS[0]["label"] in text
    assert all(line == line.rstrip() for line in text.splitlines())


@given(
    st.lists(st.lists(st.text("abc中 ", max_size=30), min_size=4, max_size=4), max_size=6),
    st.integers(20, 120),
)
def test_a_table_never_cuts_what_stays_and_fits_where_that_can_be(rows: list[list[str]], width: int) -> None:
    columns = [
        *(Column("id", str), Column("a", str, drop=2), Column("b", str, drop=1), Column("about", str, flexible=True))
    ]
    laid_out = lay_out(columns, rows, width)
    whole = max([2, *(cell_len(row[0]) for row in rows)])
    for row, lines in zip(rows, laid_out[1:], strict=True):
        assert lines[0].startswith(row[0].rstrip())
        assert all(cell_len(line) <= max(width, whole) for line in lines)
