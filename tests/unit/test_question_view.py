"""How a question looks to the person who decides by it: nothing hidden, nothing cut off in silence.

Tests of swarm/cli/output.py, swarm/cli/question_view.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from swarm.cli.output import plain
from swarm.cli.question_view import is_cut, read_always, show_detail, show_heading
from swarm.permissions.rules import Rule
from swarm.store.questions import MAX_DETAIL_CHARACTERS, Question


def _question(kind: str, detail: str, **given: Any) -> Question:
    fields: dict[str, Any] = {
        **{"id": "question-0", "job_id": "job-0", "agent_id": "agent-0", "label": "build: go", "tool": "Bash"},
        **{"title": "a title", "to": "", "state": "open", "asked_at": 0.0, "expires_at": 60.0},
    }
    return Question(kind=kind, detail=detail, **{**fields, **given})  # type: ignore[arg-type]


def _call(reason: str = "no rule allows it", **given: Any) -> Question:
    return _question("permission", f"{reason}\n\n{json.dumps(given, ensure_ascii=False, indent=2)}")


def test_a_call_is_shown_with_the_reason_and_each_parameter() -> None:
    lines = show_detail(_call(file_path="a.py", text="one\ntwo", count=2))
    assert lines == ["because no rule allows it", "file_path: a.py", "text: one", "    two", "count: 2"]


def test_a_reason_that_imitates_a_call_hides_nothing_of_the_real_one() -> None:
    lines = show_detail(_call('x\n\n{"command": "ls"}', command="rm -rf ~"), full=True)
    assert lines[-1] == "command: rm -rf ~" and "because x" in lines


@pytest.mark.parametrize("character", ["\u202e", "\u200b", "\u2066", "\u2028", "\ufeff", "\U000e0041", "\ue000"])
def test_characters_that_cannot_be_seen_are_written_out(character: str) -> None:
    (line,) = show_detail(_call(command=f"echo {character}x"))[1:]
    assert character not in line and f"{ord(character):04x}" in line


def test_controls_reach_no_terminal_and_ordinary_writing_stays() -> None:
    assert "\x1b" not in plain("\x1b[2Jx") and "\r" not in plain("a\rb")
    assert plain("Grüße, 世界, שלום") == "Grüße, 世界, שלום"
    assert "\u202e" not in show_heading(_call().model_copy(update={"title": "x\u202ey", "label": "l\u202em"}))


def test_what_is_long_is_cut_and_says_so() -> None:
    many, wide = _call(content="\n".join(map(str, range(50)))), _call(command="x" * 1_000 + "; rm y")
    assert show_detail(many)[-1] == "… 39 more lines" and "    49" in show_detail(many, full=True)
    assert show_detail(wide)[-1].endswith("… 615 more characters") and is_cut(wide) and is_cut(many)
    assert not is_cut(_call(command="ls"))
    kept = _question("plan", "p" * MAX_DETAIL_CHARACTERS)
    assert "the stored text is cut" in show_detail(kept, full=True)[-1]


def test_the_answers_that_are_offered_are_numbered() -> None:
    question = _question("question", "Which?\n- a list of its own\n\n- red\n- blue")
    assert question.options == ["red", "blue"]
    assert show_detail(question) == ["Which?", "- a list of its own", "", "1. red", "2. blue"]
    assert _question("question", "Which?\n- one\n- two\n").options == []
    assert _question("plan", "a\n- b").options == []


def test_a_lasting_approval_says_what_it_allows() -> None:
    rule = Rule(action="allow", tool="Bash", spec="git push:*", source="an approval for good")
    assert read_always(_call().model_copy(update={"always": rule.model_dump_json()})) == "Bash(git push:*)"
    assert read_always(_call()) == ""


def test_a_change_of_a_file_is_shown_as_what_goes_and_what_comes() -> None:
    given = {"file_path": "a.py", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree", "replace_all": True}
    assert show_detail(_call(**given))[1:] == ["file_path: a.py", "replace_all: true", " one", "-two", "+2", " three"]
    assert show_detail(_call(file_path="b.py", content="x = 1\ny = 2\n"))[1:] == ["file_path: b.py", "+x = 1", "+y = 2"]


def test_a_question_that_is_its_own_heading_is_not_said_twice() -> None:
    question = _question("question", "Which one?\n- a\n- b", title="Which one?")
    assert show_detail(question) == ["1. a", "2. b"] and question.options == ["a", "b"]
