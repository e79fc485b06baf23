"""Every output of hooks: its effect on a conversation is that of Claude Code, or a difference with its reason.

Tests of swarm/capabilities/hooks/answers.py, swarm/capabilities/hooks/events.py.
"""

from __future__ import annotations

import json

import pytest

from tests.documents import ROOT, rows
from tests.oracle.hook_cases import EVENTS, Effect, Output, cases
from tests.oracle.hook_life import DIFFERENCES, live_with
from tests.oracle.record_hooks import ANSWERS

CASES = list(cases())
KNOWN = json.loads(ANSWERS.read_text())


@pytest.mark.parametrize("event", EVENTS)
def test_an_output_has_the_effect_that_claude_code_gives_it(event: str) -> None:
    wrong = {}
    for of, name, output in CASES:
        if of != event:
            continue
        answer = KNOWN[event][name]
        theirs = Effect(answer["result"], tuple(answer["reads"]), answer["turns"])
        ours = live_with(event, output)
        if (ours == theirs) == ((event, name) in DIFFERENCES):
            wrong[name] = {"ours": ours, "theirs": theirs}
    assert not wrong


def test_all_outputs_are_known_and_every_difference_has_its_row_with_a_reason() -> None:
    assert len(CASES) >= 80 and all(name in KNOWN[event] for event, name, _ in CASES)
    told = {
        (event, name)
        for events, names, *_ in rows(ROOT / "docs/hooks.md", "Differences from Claude Code")
        for event in events
        for name in names
    }
    assert set(DIFFERENCES) == told


def test_a_hook_that_says_nothing_changes_nothing() -> None:
    assert live_with("PreToolUse", Output()) == Effect("ran", (), 2)
