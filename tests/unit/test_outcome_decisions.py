"""Outcomes, purely: what stands between a reply and the end of its agent.

Tests of swarm/agent/outcomes/decision.py, swarm/agent/outcomes/grader.py, swarm/agent/outcomes/messages.py, swarm/runtime/budget.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.agent.decision import AwaitGrader, CallModel, Done, End, Grade, Rest, RunCheck, Say, next_action
from swarm.agent.entries import (
    Assistant,
    Entry,
    Finished,
    Grading,
    Prompt,
    Resumed,
    Spawned,
    Started,
    Verdict,
    decode_entry,
    encode_entry,
)
from swarm.agent.history import History, fold
from swarm.agent.outcomes.decision import attempt_of
from swarm.agent.outcomes.grader import grader_definition, make_grader
from swarm.agent.outcomes.messages import SHOWN_OUTPUT, cut_output
from swarm.agent.prompts import first_message
from swarm.agent.spec import AgentSpec, Limits
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.markdown import read_markdown
from swarm.definitions.model import AgentDefinition, Outcome
from swarm.models import Usage
from swarm.models.catalogue import resolve_model
from swarm.runtime.budget import MOST_FOR_GRADER, Prices, reservation_for
from swarm.store.values import NANO

BOTH = Outcome(check="make test", rubric="It is short.", tries=2)


def make_spec(outcome: Outcome | None = BOTH, **limits: Any) -> AgentSpec:
    return AgentSpec(
        agent_id="agent-0000000000000000",
        job_id="job-0000000000000000",
        definition=AgentDefinition(name="worker", description="Works.", prompt="Work.", outcome=outcome),
        description="d",
        prompt="write it",
        model="claude-sonnet-4-5",
        workspace="/w",
        limits=Limits(**limits),
    )


def says(text: str = "done", **given: Any) -> Assistant:
    content = [{"type": "text", "text": text}] if text else []
    return Assistant(content=content, stop_reason=given.pop("stop", "end_turn"), usage=Usage(), model="m", **given)


def recorded(*entries: Entry, spec: AgentSpec | None = None) -> History:
    begun: list[Entry] = [Started(spec=spec or make_spec()), Prompt(text="write it")]
    return fold("agent-0000000000000000", [*begun, *entries])


def check(attempt: int, *, passed: bool, text: str = "") -> Verdict:
    return Verdict(by="check", attempt=attempt, passed=passed, summary="`make test` exited with 1", text=text)


def grade(attempt: int, *, passed: bool, **given: Any) -> Verdict:
    return Verdict(by="grader", attempt=attempt, passed=passed, summary="It is long.", **given)


GRADING = Grading(grader="agent-1111111111111111", attempt=1)


def test_an_end_needs_the_check_and_then_the_grader() -> None:
    assert next_action(recorded(says())) == RunCheck()
    checked = [says(), check(1, passed=True)]
    assert next_action(recorded(*checked)) == Grade(Finished(state="completed", text="done"))
    assert next_action(recorded(*checked, GRADING)) == AwaitGrader(GRADING)
    accepted = recorded(*checked, GRADING, grade(1, passed=True))
    assert next_action(accepted) == End(Finished(state="completed", text="done"))


def test_who_is_judged_by_one_of_them_needs_only_that_one() -> None:
    assert next_action(recorded(says(), spec=make_spec(Outcome(rubric="Short.")))) == Grade(
        Finished(state="completed", text="done")
    )
    only_check = make_spec(Outcome(check="true"))
    assert isinstance(next_action(recorded(says(), check(1, passed=True), spec=only_check)), End)
    assert next_action(recorded(says(), spec=make_spec(None))) == End(Finished(state="completed", text="done"))


def test_a_refusal_comes_back_as_text_and_the_next_answer_is_judged_anew() -> None:
    history = recorded(says(), check(1, passed=False, text="not yet"))
    assert isinstance(next_action(history), CallModel) and attempt_of(history) == 2
    assert history.messages[-1] == {"role": "user", "content": [{"type": "text", "text": "not yet"}]}
    history.apply(says("done now"))
    assert next_action(history) == RunCheck()


def test_a_grader_that_refuses_has_the_check_run_again_too() -> None:
    history = recorded(says(), check(1, passed=True), GRADING, grade(1, passed=False, text="shorter"), says("short"))
    assert next_action(history) == RunCheck()


def test_an_empty_answer_that_is_refused_goes_back_to_the_model() -> None:
    assert isinstance(next_action(recorded(says(""), check(1, passed=False, text="not yet"))), CallModel)


def test_the_last_refusal_ends_the_agent_as_failed_with_its_work() -> None:
    first = [says("first"), check(1, passed=False, text="not yet")]
    action = next_action(recorded(*first, says("second"), check(2, passed=False)))
    assert isinstance(action, End)
    assert (action.finished.state, action.finished.text) == ("failed", "second")
    assert action.finished.reason == "not accepted after 2 attempts: `make test` exited with 1"


def test_what_could_not_be_judged_is_not_completed() -> None:
    void = Verdict(by="check", attempt=1, passed=False, void=True, summary="the check could not be run: no shell")
    action = next_action(recorded(says(), void))
    assert isinstance(action, End)
    assert (action.finished.state, action.finished.reason) == ("failed", "the check could not be run: no shell")


def test_last_words_are_judged_once_and_not_sent_back() -> None:
    words = Prompt(text="Last words.", purpose="final_answer", limit="turns")
    history = recorded(says(), check(1, passed=False, text="not yet"), words, says("the rest is open"))
    assert next_action(history) == RunCheck()
    history.apply(check(2, passed=False))
    action = next_action(history)
    assert isinstance(action, End) and action.finished.state == "failed" and action.finished.stopped_at == "turns"
    assert "stopped at its limit of turns; not accepted" in action.finished.reason


def test_what_does_not_claim_success_is_not_judged() -> None:
    assert isinstance(next_action(recorded(says(stop="refusal"))), End)
    late = Prompt(text="Last words.", purpose="final_answer", limit="time")
    action = next_action(recorded(late, says("half")))
    assert isinstance(action, End) and action.finished.state == "timed_out"


def test_those_who_still_work_for_it_are_waited_for_first() -> None:
    begun = [Spawned(children={"toolu_1": "agent-2222222222222222"}, background=["toolu_1"]), says()]
    history = recorded(*begun)
    assert next_action(history) == Rest(RunCheck())
    history.apply(check(1, passed=True))
    assert isinstance(next_action(history), Rest)


def test_turns_are_limited_while_work_goes_back_and_forth() -> None:
    history = recorded(says(), check(1, passed=False, text="not yet"), spec=make_spec(max_turns=1))
    action = next_action(history)
    assert isinstance(action, Say) and action.prompt.purpose == "final_answer"


def test_the_next_run_has_its_attempts_again() -> None:
    ended = [says(), check(1, passed=False, text="not yet"), says(), check(2, passed=False)]
    history = recorded(*ended, Finished(state="failed", text="done"))
    assert next_action(history) == Done()
    for entry in (Resumed(), Prompt(text="go on"), says("again")):
        history.apply(entry)
    assert next_action(history) == RunCheck() and attempt_of(history) == 1


def test_verdicts_survive_being_stored() -> None:
    for entry in (GRADING, grade(2, passed=False, report="- x", grader="agent-1111111111111111", text="t")):
        assert decode_entry(encode_entry(entry), agent_id="a", number=1) == entry


def test_the_agent_is_told_what_it_is_judged_by_in_its_first_message() -> None:
    text = first_message(make_spec(), now=0)
    assert "`make test`" in text and "<rubric>\nIt is short.\n</rubric>" in text and "2 times" in text
    assert "accepted" not in first_message(make_spec(None), now=0)


def test_a_grader_is_read_only_and_sees_task_rubric_answer_and_check() -> None:
    given: dict[str, Any] = {"attempt": 1, "mode": "acceptEdits", "commit": "", "answer": "ANSWER", "check": "CHECK"}
    grader = make_grader(make_spec(), BOTH, entry=7, **given)
    assert grader.definition.read_only and grader.definition.outcome is None and grader.helper
    for part in ("write it", "It is short.", "ANSWER", "CHECK"):
        assert part in grader.prompt
    assert grader.agent_id == make_grader(make_spec(), BOTH, entry=7, **given).agent_id
    assert grader.agent_id != make_grader(make_spec(), BOTH, entry=9, **given).agent_id
    assert grader_definition().name not in load_catalogue(None).definitions


def test_money_is_kept_for_the_grader_but_no_large_part_of_a_small_limit() -> None:
    model = resolve_model("sonnet", default="sonnet", parent=None, prices_file=None)
    prices = Prices(model, None)

    def kept(spec: AgentSpec) -> tuple[int, int]:
        graded, plain = (
            reservation_for(recorded(spec=spec), prices, final=True, now=0, graded=flag) for flag in (True, False)
        )
        return graded.closing_tokens - plain.closing_tokens, graded.closing_cost - plain.closing_cost

    assert kept(make_spec())[1] > 0
    assert kept(make_spec(budget_usd=0.1))[1] <= round(0.1 * NANO * MOST_FOR_GRADER)
    assert kept(make_spec(max_tokens=10_000))[0] == 2_000
    assert kept(make_spec(Outcome(check="true"))) == (0, 0)


def test_of_a_long_output_both_ends_are_shown_and_the_end_more() -> None:
    output = "BEGIN" + "x" * SHOWN_OUTPUT + "END"
    shown = cut_output(output, "output:check-5")
    assert shown.startswith("BEGIN") and shown.endswith("END") and "output:check-5" in shown
    assert cut_output("short") == "short"


def test_a_definition_says_what_its_work_must_pass(tmp_path: Path) -> None:
    path = tmp_path / "fixer.md"
    path.write_text(
        "---\nname: fixer\ndescription: d\ncheck: make test\nrubric: Short.\ntries: 5\ncheckTimeout: 30\n---\nFix.\n"
    )
    [definition] = read_markdown(path).definitions
    assert definition.outcome == Outcome(check="make test", rubric="Short.", tries=5, check_seconds=30)
    assert definition.warnings == []


@pytest.mark.parametrize(
    ("keys", "wrong"), [("check: make\ntries: 0", "`tries`"), ("tries: 2", "neither"), ("check: [a]", "`check`")]
)
def test_a_definition_whose_judges_cannot_be_read_is_refused(tmp_path: Path, keys: str, wrong: str) -> None:
    path = tmp_path / "fixer.md"
    path.write_text(f"---\nname: fixer\ndescription: d\n{keys}\n---\nFix.\n")
    result = read_markdown(path)
    assert not result.definitions and wrong in str(result.problems[0])
