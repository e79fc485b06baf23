"""Our decisions and texts beside those of other systems' own CLIs, whose answers are kept in `tests/oracle/answers.json`.

Tests of swarm/permissions/calls.py, swarm/permissions/judge.py, swarm/permissions/path_rules.py, swarm/permissions/rules.py,
swarm/permissions/shell/judge.py, swarm/permissions/shell/patterns.py, swarm/capabilities/context/nested.py.
"""

from __future__ import annotations

import copy
from pathlib import Path

from docs.generate import inserts
from tests.oracle.codex import MEANINGS, decide_as_codex
from tests.oracle.opencode import SETS, decide_as_opencode
from tests.oracle.ours import SEVERITY, decide_set, find_differences, give_texts, read_answers, read_reasons
from tests.oracle.world import list_cases, read_sets

STRICTER_THAN_OPENCODE = (
    *("bash FOO=1 git push", "bash git  push", "bash 'git' push", 'bash git "push"', "bash /usr/bin/git push"),
    *('bash bash -c "git push"', "bash git -C . push", "bash timeout 5 git push"),
    *("bash ls ab", "bash ls", "grep x", "glob *.txt"),
    *("write docs/n2.md", "write {home}/x2", "read link.txt", "read linked/k"),
)


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


def test_opencodes_tables_decide_as_opencode_does_or_forbid_more() -> None:
    kept = read_answers()["opencode"]
    differences = {
        f"{tool} {subject}": (there, here[tool][subject])
        for name in SETS
        for here in [decide_as_opencode(name)]
        for tool, asked in kept[name].items()
        for subject, there in asked.items()
        if here[tool][subject] != there
    }
    count = sum(len(asked) for name in SETS for asked in kept[name].values())
    told = f"Of {count} calls, each judged by OpenCode {kept['version']}"
    assert len(differences) == 16
    assert told in (Path(__file__).parents[2] / "docs/coming-from.md").read_text()
    assert all(SEVERITY[here] > SEVERITY[there] for there, here in differences.values())
    # Spellings and wrappers of a command, other names of a file, and patterns without a counterpart.
    assert sorted(differences) == sorted(STRICTER_THAN_OPENCODE)


def test_the_table_of_differences_is_current() -> None:
    for page, text in inserts().items():
        assert page.read_text(encoding="utf-8") == text, "run `python -m docs.generate`"


def test_a_rule_covers_no_group_no_background_and_no_other_spelling() -> None:
    assert {decide_set("spelt")[case] for case in list_cases("spelt") if case.subject.endswith((")", "}", "&"))} == {
        "look"
    }
