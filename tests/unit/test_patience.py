"""That nobody who waits hears nothing for long, and is told what for.

Tests of swarm/cli/patience.py.
"""

from __future__ import annotations

import threading

from swarm.cli.patience import describe_waiting, said
from tests.unit.test_cli_widths import AGENTS


def test_whoever_waits_is_told_again_and_again_and_not_afterwards() -> None:
    told: list[str] = []
    twice = threading.Event()

    def say(what: str) -> None:
        told.append(what)
        if len(told) == 2:
            twice.set()

    with said("stopping", say, every_seconds=0.001):
        assert twice.wait(30)
    after = len(told)
    assert set(told) == {"still stopping"} and len(told) == after


def test_those_that_something_keeps_waiting_are_named_first() -> None:
    assert describe_waiting(AGENTS) == (
        "waiting for general-purpose: check: waiting for the model (connection refused); "
        "general-purpose: search the web folder: Grep legacy_login in web/**/*.py; and 1 more agent"
    )
    assert describe_waiting([]) == "waiting for its first agent"
