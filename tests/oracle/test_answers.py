"""The kept answers are the ones that the CLIs give: `pytest -n2 -m oracle tests/oracle`, about three minutes.

Tests of tests/oracle/claude_code.py, tests/oracle/codex.py, tests/oracle/opencode.py,
tests/oracle/record.py.
"""

from __future__ import annotations

import pytest

from tests.oracle.claude_code import find_program
from tests.oracle.codex import ask_codex
from tests.oracle.codex import find_program as find_codex
from tests.oracle.opencode import SETS, ask_opencode
from tests.oracle.opencode import find_program as find_opencode
from tests.oracle.ours import read_answers
from tests.oracle.record import ask_about, ask_for_texts
from tests.oracle.world import read_sets

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]
_STALE = "another version answers otherwise: run `python -m tests.oracle.record`, and look at what became weaker"


@pytest.fixture
def program() -> str:
    found = find_program()
    if found is None:
        pytest.skip("no `claude`: npm install @anthropic-ai/claude-code, and name it in SWARM_ORACLE_CLAUDE")
    return found


@pytest.mark.parametrize("name", list(read_sets()))
def test_the_answers_about_rules_are_the_oracles(program: str, name: str) -> None:
    assert ask_about(program, name) == read_answers()["rules"][name], _STALE


def test_the_texts_are_the_oracles(program: str) -> None:
    assert ask_for_texts(program) == read_answers()["texts"], _STALE


@pytest.mark.parametrize("name", list(SETS))
def test_the_answers_about_opencodes_tables_are_opencodes(name: str) -> None:
    opencode = find_opencode()
    if opencode is None:
        pytest.skip("no `opencode`: npm install opencode-ai, and name it in SWARM_ORACLE_OPENCODE")
    assert ask_opencode(opencode, name) == read_answers()["opencode"][name], _STALE


def test_the_answers_about_codexs_rules_are_codexs() -> None:
    codex = find_codex()
    if codex is None:
        pytest.skip("no `codex`: npm install @openai/codex, and name it in SWARM_ORACLE_CODEX")
    assert ask_codex(codex) == read_answers()["codex"], _STALE
