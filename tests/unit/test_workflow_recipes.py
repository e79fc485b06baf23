"""The ten recipes of the pages run, without a model, to the values that they promise.

Tests of docs/recipes.md, swarm/workflows/trial.py, swarm/workflows/flow.py.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from swarm.workflows.trial import Tried, TriedCall, fail, try_workflow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"


@cache
def read_recipes() -> dict[str, Any]:
    """Return the names that the page's blocks define."""
    place: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"^```python example\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        exec(compile(block, str(PAGE), "exec"), place)
    return place


def run(name: str, answer: Any, **task: Any) -> Tried:
    tried = try_workflow(read_recipes()[name], answer, task)
    assert not tried.error, tried.error
    return tried


def test_a_finding_that_one_sceptic_refutes_is_dropped() -> None:
    def say(call: TriedCall) -> Any:
        if call.prompt == "Review bad.":
            fail("no")
        return [f"{call.prompt} 1", "two"] if "Review " in call.prompt[:7] else {"real": "(2): two" not in call.prompt}

    tried = run("review", say, files=["a", "bad", "b"])
    assert tried.value == ["Review a. 1", "Review b. 1"] and len(tried.calls) == 2 + 2 + 8
    assert "log: 1 of 3 files failed" in tried.notes


def test_a_migration_repairs_until_the_tests_pass() -> None:
    checks: list[str] = []

    def say(call: TriedCall) -> Any:
        if call.tool == "Bash":
            # Each wait is a replay, but each call is answered once.
            checks.append(call.id)
            return fail("2 failed") if len(checks) < 3 else "ok"
        return fail("no") if "Migrate f7 " in call.prompt else "done"

    tried = run("migrate", say, files=[f"f{number}" for number in range(40)], to="3.13")
    assert tried.value == {"failed": ["f7"], "passed": True}
    migrations = [call for call in tried.calls if "Migrate" in call.prompt]
    assert len(migrations) == 41 and {call.given["isolation"] for call in migrations} == {"worktree"}
    assert sum("Repair" in call.prompt for call in tried.calls) == 2 and tried.notes[-2] == "progress: 39 of 40"


def test_the_best_of_five_is_kept() -> None:
    def say(call: TriedCall) -> Any:
        if call.tool == "MergeAgent":
            return f"merged {call.given['agent_id']}"
        return "try-2\n" if "Which" in call.prompt else fail("no") if call.given["name"] == "try-1" else "done"

    tried = run("best", say, task="Solve it.")
    assert tried.value == "merged try-2" and len(tried.calls) == 5 + 2
    assert "try-1:" not in tried.calls[5].prompt and "try-2:\ndone" in tried.calls[5].prompt


def test_rounds_end_when_nothing_is_new() -> None:
    found = iter([["b", "a"], ["c", "a"], ["a"]])
    tried = run("exhaust", lambda call: next(found), question="Which bugs?")
    assert tried.value == ["a", "b", "c"] and tried.notes[-1] == "phase: round 3"


@pytest.mark.parametrize(("same", "calls"), [(True, 3), (False, 4)])
def test_answers_that_differ_are_checked(same: bool, calls: int) -> None:
    tried = run("research", lambda call: {"real": same} if "the same" in call.prompt else "R", question="Why?")
    assert tried.value == "R" and len(tried.calls) == calls


@pytest.mark.parametrize(("said", "value"), [("yes", "published"), ("no", "not released")])
def test_a_release_waits_for_a_person_and_an_event(said: str, value: str) -> None:
    def say(call: TriedCall) -> Any:
        told = {"AskUserQuestion": said, "WaitFor": "over", "Agent": "changes"}
        return told.get(call.tool) or ("published" if "release.sh" in call.prompt else "ok")

    tried = run("release", say, version="1.2")
    assert tried.value == value and len(tried.calls) == (5 if said == "yes" else 3)


def test_issues_are_sorted_and_the_urgent_ones_are_looked_at() -> None:
    def say(call: TriedCall) -> Any:
        return "urgent" if "fire" in call.prompt else fail("no") if "odd" in call.prompt else "bug"

    issues = [{"title": title, "text": ""} for title in ("fire", "odd", "typo")]
    tried = run("triage", say, issues=issues)
    assert tried.value == {"urgent": ["fire"], "failed": ["odd"], "bug": ["typo"]}
    assert tried.calls[-1].prompt == "Find the cause of: fire"


def test_an_evaluation_is_the_mean_with_failures_as_nothing() -> None:
    def say(call: TriedCall) -> Any:
        return {"points": 9} if "points" in call.prompt else fail("no") if call.prompt == "q2" else "x"

    rows = [{"question": f"q{number}", "expected": "x"} for number in range(3)]
    assert run("evaluate", say, rows=rows, model="haiku").value == 6


def test_the_first_answer_wins_and_the_others_are_stopped() -> None:
    tried = run("race", lambda call: call.prompt, task="Do it.")
    assert tried.value == "Do it. Way 0." and len(tried.calls) == 3


def test_a_train_of_workflows_stops_at_open_findings() -> None:
    def say(call: TriedCall, findings: Any = ()) -> Any:
        return list(findings) if call.given.get("subagent_type") == "review" else "R"

    assert run("train", say, version="2").value == "R"
    assert run("train", lambda call: say(call, ["x"]), version="2").value == "1 findings are open"


def test_the_page_has_ten_recipes_and_each_has_a_test() -> None:
    names = re.findall(r"^async def (\w+)\(flow", PAGE.read_text(), re.M)
    tested = Path(__file__).read_text()
    assert len(names) == 10 and all(f'run("{name}"' in tested for name in names)
