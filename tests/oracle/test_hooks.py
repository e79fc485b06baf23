"""Claude Code's CLI is asked again about outputs of hooks, and answers as it is recorded.

Tests of swarm/capabilities/hooks/answers.py.
"""

from __future__ import annotations

import json

import pytest

from tests.needs import need
from tests.oracle.hook_cases import Effect, Output, cases
from tests.oracle.record_hooks import ANSWERS, ask, find_program

pytestmark = [pytest.mark.long, pytest.mark.oracle]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("event", "name", "output"), list(cases()), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_the_cli_answers_as_recorded(event: str, name: str, output: Output) -> None:
    program = find_program()
    need(
        program is not None, "Claude Code's CLI", "npm install @anthropic-ai/claude-code, named in SWARM_ORACLE_CLAUDE"
    )
    assert program is not None
    known = json.loads(ANSWERS.read_text())[event][name]
    assert ask(program, event, output) == Effect(known["result"], tuple(known["reads"]), known["turns"])
