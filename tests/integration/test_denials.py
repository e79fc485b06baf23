"""Calls that are denied again and again, the mode in which a small model is asked first, and failures that end those beside them.

Tests of swarm/agent/notes.py, swarm/runtime/auto_mode.py, swarm/runtime/side_requests.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import Hooked, Parked, Ruled, ToolFinished
from swarm.agent.notes import STOPPED_AT, TOLD_AT, advise_denied
from swarm.client.swarm import Job
from swarm.runtime.auto_mode import read_answer
from tests.fleet import Fleet
from tests.needs import need_network
from tests.waiting import wait_for

MAKE = '{name: Bash, input: {command: "touch made"}}'


def submit(fleet: Fleet, scenario: str, **options: Any) -> Job:
    url = fleet.rehearse(f"name: x\nrules:\n{scenario}").url
    return fleet.swarm.submit("go", agent="general-purpose", workspace=fleet.workspace, base_url=url, **options)


def auto(fleet: Fleet, answer: str, **options: Any) -> Job:
    """A job in the mode auto whose small model gives this answer; with the network no sandbox holds what a command does."""
    need_network()
    scenario = f"""
  - {{when: {{prompt: '<call>'}}, reply: {{text: "{answer}"}}}}
  - {{when: {{turn: 0}}, reply: {{tools: [{MAKE}]}}}}
  - {{reply: {{text: DONE}}}}
"""
    return submit(fleet, scenario, **{"mode": "auto", "network": True, "ask_seconds": 0, **options})


def entries(fleet: Fleet, job: Job, kind: type) -> list[Any]:
    return [entry for entry in fleet.swarm.journal(job.view().root_id) if isinstance(entry, kind)]


# -- denied again and again ----------------------------------------------------------------------------------------


def test_who_tries_again_what_is_denied_is_told_once_and_then_stopped(at_work: Fleet) -> None:
    scenario = f"  - {{reply: {{text: TRYING, tools: [{MAKE}]}}}}\n"
    view = submit(at_work, scenario, deny=["Bash(touch:*)"]).wait(60)
    assert view.state == "failed" and view.text == "TRYING"
    assert view.reason == f"it was stopped because it repeated a denied call {STOPPED_AT} times: Bash (Bash(touch:*))"
    denied = entries(at_work, at_work.swarm.job(view.id), ToolFinished)
    assert len(denied) == STOPPED_AT
    assert [advise_denied(TOLD_AT).strip() in one.text for one in denied] == [
        n == TOLD_AT for n in range(1, STOPPED_AT + 1)
    ]


def test_different_things_that_are_denied_stop_nobody(at_work: Fleet) -> None:
    calls = ", ".join(
        f'{{name: WebFetch, input: {{url: "https://{n}.example", prompt: x}}}}' for n in range(2 * STOPPED_AT)
    )
    scenario = f"  - {{when: {{turn: 0}}, reply: {{tools: [{calls}]}}}}\n  - {{reply: {{text: DONE}}}}\n"
    assert submit(at_work, scenario, mode="dontAsk").wait(60).text == "DONE"


# -- a small model answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "made", "words"),
    [
        ("ALLOW: it makes a file of the task", True, ""),
        ("DENY: nobody wants that file", False, "nobody wants that file (a small model says so, in the mode auto)"),
        ("ASK: I cannot tell", False, "no one can be asked"),
        ("I would say allow", False, "no one can be asked"),
    ],
)
def test_a_small_model_answers_and_in_doubt_leaves_it_to_the_person(
    at_work: Fleet, answer: str, made: bool, words: str
) -> None:
    job = auto(at_work, answer)
    view = job.wait(60)
    assert view.text == "DONE" and (at_work.workspace / "made").exists() is made
    [ruled], [result] = entries(at_work, job, Ruled), entries(at_work, job, ToolFinished)
    assert ruled.tool_use_id == result.tool_use_id and (ruled.answer == "allow") is made and ruled.reason
    assert words in result.text and result.is_error is not made
    assert ruled.usage.total_tokens > 0
    spent = sum(
        entry.usage.total_tokens for entry in at_work.swarm.journal(view.root_id) if getattr(entry, "usage", None)
    )
    assert view.usage.total_tokens == spent, "the job paid for it"


def test_it_is_off_unless_it_is_chosen_and_never_asked_about_what_a_rule_says(at_work: Fleet) -> None:
    for options in ({"mode": "acceptEdits"}, {"deny": ["Bash(touch:*)"]}, {"ask": ["Bash(touch:*)"]}):
        job = auto(at_work, "ALLOW: why not", **options)
        assert job.wait(60).text == "DONE"
        assert not (at_work.workspace / "made").exists() and entries(at_work, job, Ruled) == [], options


def test_what_a_hook_has_a_person_asked_about_no_small_model_answers(
    at_work: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    said = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    hook = {"type": "command", "command": f"cat >/dev/null; echo '{json.dumps(said)}'"}
    settings = tmp_path / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}))
    for network in (True, False):  # whether the mode would have asked, or not
        job = auto(at_work, "ALLOW: why not", network=network)
        assert job.wait(60).text == "DONE"
        assert entries(at_work, job, Hooked) and entries(at_work, job, Ruled) == []
        assert not (at_work.workspace / "made").exists()


def test_the_person_is_asked_once_what_the_small_model_leaves_open(at_work: Fleet) -> None:
    job = auto(at_work, "ASK: it may cost money", ask_seconds=60)
    question = wait_for("it is asked", lambda: next(iter(at_work.swarm.questions.open(job.id)), None))
    at_work.swarm.answer(question.id, "allow")
    assert job.wait(60).text == "DONE" and (at_work.workspace / "made").exists()
    # It was parked meanwhile, and whoever went on with it asked no model again.
    assert len(entries(at_work, job, Ruled)) == len(entries(at_work, job, Parked)) == 1


def test_what_is_no_clear_answer_is_left_to_the_person() -> None:
    assert read_answer("ALLOW: it reads") == ("allow", "it reads")
    assert read_answer("  DENY — it sends the key\nelsewhere") == ("deny", "it sends the key elsewhere")
    assert read_answer("ALLOWED, surely")[0] == read_answer("")[0] == read_answer("allow")[0] == "ask"


# -- one for all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [True, False])
def test_a_failure_ends_its_siblings_where_the_call_says_so(at_work: Fleet, bound: bool) -> None:
    (at_work.workspace / ".swarm" / "agents").mkdir(parents=True)
    failing = "---\nname: failing\ndescription: Fails.\ncheck: 'false'\ntries: 1\n---\nFail."
    (at_work.workspace / ".swarm" / "agents" / "failing.md").write_text(failing)
    asked = ", abort_siblings: true" if bound else ""
    job = submit(
        at_work,
        f"""
  - when: {{turn: 0, prompt: go}}
    reply:
      tools:
        - {{name: Agent, input: {{description: a, prompt: LONG, subagent_type: worker}}}}
        - {{name: Agent, input: {{description: b, prompt: FAIL, subagent_type: failing{asked}}}}}
  - {{when: {{prompt: LONG, turn: 0}}, reply: {{tools: [{{name: Bash, input: {{command: "sleep {30 if bound else 2}"}}}}]}}}}
  - {{reply: {{text: DONE}}}}
""",
    )
    assert job.wait(60).text == "DONE"
    states = {agent.label.partition(":")[0]: agent.state for agent in job.agents()[1:]}
    assert states == {"failing": "failed", "worker": "cancelled" if bound else "completed"}
    if bound:
        [long, failed] = entries(at_work, job, ToolFinished)
        assert "which was started beside it, failed" in long.text and long.is_error and failed.is_error
