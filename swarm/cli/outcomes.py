"""Verdicts about an agent's work, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.cli.output import one_line
from swarm.records import VerdictView

_SHOWN = 300


def describe_verdict(verdict: VerdictView) -> str:
    """One verdict: `attempt 2: check passed: …`."""
    return f"attempt {verdict.attempt}: {verdict.by} {_word(verdict)}: {one_line(verdict.summary, _SHOWN)}"


def describe_latest(verdicts: Sequence[VerdictView]) -> str:
    """How an agent stands that has been judged, in a few words; empty if it has not."""
    if not verdicts:
        return ""
    last = verdicts[-1]
    return f"attempt {last.attempt}: {last.by} {_word(last)}"


def _word(verdict: VerdictView) -> str:
    return "passed" if verdict.passed else "could not be had" if verdict.void else "refused"
