"""The table of what each language of workflows can do: each of its cells runs, and those of a line ask for the same.

Tests of swarm/workflows/awaited.py, swarm/workflows/flow.py, swarm/workflows/monty.py, swarm/workflows/javascript.py,
swarm/workflows/rows.py.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from swarm import workflow
from swarm.definitions.workflow_files import make_definition
from swarm.workflows.awaited import ASKS
from swarm.workflows.flow import Flow
from swarm.workflows.trial import Tried, TriedCall, fail, try_workflow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workflows.md"
HEAD = "export const meta = { name: 'cell', description: 'Runs a cell.' };\n"


def read_table() -> dict[str, list[str]]:
    """Subject → the code of the three languages."""
    part = PAGE.read_text().partition("## The three languages side by side")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows if row[0].strip()}


TABLE = {subject: cells for subject, cells in read_table().items() if all(cell.startswith("`") for cell in cells)}
ROWS = 2_600
WITHOUT_WAIT = ("words for people", "the rest of the budget")


def answer(call: TriedCall) -> Any:
    if call.tool == "ReadRows":
        return [{"n": number} for number in range(ROWS if call.given["file_path"] == "many.jsonl" else 2)]
    if call.tool == "MapRows":
        return [
            {"ok": row["n"] != 1 or len(call.given["rows"]) == 2, "value": row["n"], "error": "no"}
            for row in call.given["rows"]
        ]
    return {"a": 1} if "result_schema" in call.given or call.given.get("subagent_type") == "votes" else "yes"


def run_native(expression: str, reply: Any = answer) -> Tried:
    """Run an expression as a native workflow."""
    place: dict[str, Any] = {"timedelta": timedelta, "Flow": Flow, "asyncio": asyncio}
    source = f"async def cell(flow: Flow) -> object:\n    'Runs a cell.'\n    return {expression}\n"
    exec(source, place)  # the pages' own words
    place["cell"].__module__ = __name__
    return try_workflow(workflow(place["cell"]), reply, {})


def run_cells(subject: str, cells: list[str]) -> list[Tried]:
    codes = [cell.strip("`") for cell in cells]
    wait = "" if subject in WITHOUT_WAIT else "await "
    native, python, script = codes
    return [
        run_native(wait + native),
        try_workflow(make_definition(wait + python, ".py", "cell", "x"), answer),
        try_workflow(make_definition(f"{HEAD}return {wait}({script});", ".js", "cell", "x"), answer),
    ]


def meaning(call: TriedCall) -> tuple[str, dict[str, Any]]:
    """What a call asks for, without its label and time limit."""
    given = {name: value for name, value in call.given.items() if name not in ("description", "timeout")}
    return call.tool, given


@pytest.mark.parametrize("subject", TABLE)
def test_a_line_of_the_table_does_the_same_in_each_language(subject: str) -> None:
    pytest.importorskip("pydantic_monty")
    pytest.importorskip("quickjs")
    tried = run_cells(subject, TABLE[subject])
    assert [one.error for one in tried] == ["", "", ""]
    asked = [[meaning(call) for call in one.calls] for one in tried]
    assert asked[0] == asked[1] == asked[2]
    assert len({tuple(one.notes) for one in tried}) == 1 and len({one.seconds for one in tried}) == 1


def test_the_table_has_each_function_of_the_sandboxes() -> None:
    assert len(TABLE) >= 18
    asks = [name for name in ASKS if not name.startswith("_")]
    for name in [
        *asks,
        "map_rows",
        "parallel",
        "pipeline",
        "each",
        "phase",
        "log",
        "progress",
        "sleep_until",
        "left_usd",
    ]:
        assert any(f"{name}(" in cells[1] for cells in TABLE.values()), name


def test_thousands_of_rows_are_run_in_parts_and_come_back_in_order_in_each_language() -> None:
    pytest.importorskip("pydantic_monty")
    pytest.importorskip("quickjs")
    cells = [
        "[one.value if one.ok else None for one in await flow.map('many.jsonl', 'Look at {n}', limit=700, retry=1)]",
        "[one.value for one in await map_rows('many.jsonl', 'Look at {n}', limit=700, retry=1)]",
        "await mapRows('many.jsonl', 'Look at {n}', {limit: 700, retry: 1})",
    ]
    tried = [
        run_native(cells[0]),
        try_workflow(make_definition(cells[1], ".py", "cell", "x"), answer),
        try_workflow(make_definition(f"{HEAD}return {cells[2]};", ".js", "cell", "x"), answer),
    ]
    assert [one.error for one in tried] == ["", "", ""]
    for one in tried:
        assert one.value == [0, None, *range(2, ROWS)]
        parts = [call.given for call in one.calls if call.tool == "MapRows"]
        assert len(parts) == 11 and {part["limit"] for part in parts} == {250}
        assert all(part["options"] == {"retry": 1} for part in parts)
        assert [row["n"] for part in parts for row in part["rows"]] == [*range(ROWS)]
    assert len({call.id for one in tried for call in one.calls}) == 12


def test_results_of_branches_are_values_with_their_errors() -> None:
    pytest.importorskip("pydantic_monty")
    source = "await parallel(agent('a'), agent('b'))"
    reply = lambda call: fail("no") if call.prompt == "b" else "R"  # noqa: E731
    told = try_workflow(make_definition(source, ".py", "cell", "x"), reply).value
    assert told == [{"ok": True, "value": "R", "error": ""}, {"ok": False, "value": None, "error": "no"}]
    native = run_native("await flow.parallel(flow.agent('a'), flow.agent('b'))", reply)
    assert native.value == [{"value": "R", "ok": True}, {"error": "no", "ok": False}]


@pytest.mark.parametrize("language", ["python", "script"])
def test_an_agent_of_a_sandbox_is_tried_again_and_given_up_when_its_time_is_over(language: str) -> None:
    pytest.importorskip("pydantic_monty")
    pytest.importorskip("quickjs")
    if language == "python":
        source = "await agent('Fail once', retry=1) + str((await parallel(agent('Fail', retry=2)))[0].ok)"
        flaky = make_definition(source, ".py", "cell", "x")
    else:
        source = "return (await agent('Fail once', {retry: 1})) + String(Boolean(await agent('Fail', {retry: 2})));"
        flaky = make_definition(HEAD + source, ".js", "cell", "x")
    tried = try_workflow(flaky, lambda call: fail("no") if call.prompt == "Fail" or call.id.endswith(".0") else "R")
    assert tried.value.lower() == "rfalse", tried.error
    assert [call.prompt for call in tried.calls] == ["Fail once"] * 2 + ["Fail"] * 3
