"""Our decisions and texts beside those of Claude Code's and Codex's own CLIs, whose answers are kept in `tests/oracle/answers.json`.

Tests of swarm/permissions/calls.py, swarm/permissions/judge.py, swarm/permissions/path_rules.py, swarm/permissions/rules.py,
swarm/permissions/shell/judge.py, swarm/permissions/shell/patterns.py, swarm/capabilities/context/nested.py.
"""

from __future__ import annotations

import copy

from docs.generate import inserts
from tests.oracle.codex import MEANINGS, decide_as_codex
from tests.oracle.ours import decide_set, find_differences, give_texts, read_answers, read_reasons
from tests.oracle.world import list_cases, read_sets


def test_the_oracle_was_asked_about_each_case() -> None:
    answers = read_answers()["rules"]
    known = {
        (name, tool, subject) for name, tools in answers.items() for tool, asked in tools.items() for subject in asked
    }
    assert known == {tuple(case) for name in read_sets() for case in list_cases(name)}
    assert len(known) >= 250 and not [one for one in known if answers[one[0]][one[1]][one[2]] == "invalid"]


def test_no_decision_is_weaker_than_claude_codes() -> None:
    assert not [one for one in find_differences() if one.is_weaker]


def test_each_difference_has_its_reason_and_each_reason_its_difference() -> None:
    explained = [name for names in read_reasons().values() for name in names]
    assert sorted(explained) == sorted({one.name for one in find_differences()})


def test_agents_are_given_the_texts_that_claude_code_gives() -> None:
    there, here = copy.deepcopy(read_answers()["texts"]), give_texts()
    assert there["sub"].remove("skill-below") is None
    assert here == there


def test_codexs_rules_decide_as_codex_does() -> None:
    there = {command: MEANINGS[decision] for command, decision in read_answers()["codex"].items()}
    differences = {command: here for command, here in decide_as_codex().items() if here != there[command]}
    assert differences == {"echo two words": "deny"}, "to deny, a rule's word is also found as several words"


def test_the_table_of_differences_is_current() -> None:
    for page, text in inserts().items():
        assert page.read_text(encoding="utf-8") == text, "run `python -m docs.generate`"


def test_a_rule_covers_no_group_no_background_and_no_other_spelling() -> None:
    assert {decide_set("spelt")[case] for case in list_cases("spelt") if case.subject.endswith((")", "}", "&"))} == {
        "look"
    }
