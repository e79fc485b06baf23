"""The short form of `tests.chaos.remembering`.

Tests of swarm/definitions/memory_stores.py, tests/chaos/remembering.py.
"""

from __future__ import annotations

import pytest

from tests.chaos.remembering import play


@pytest.mark.long
def test_many_writers_of_the_same_pages_lose_nothing_while_processes_die() -> None:
    found = play(60, 5, blows=8, every_seconds=0.5, processes=4)
    assert found.held, (found.lost, found.doubled, found.complaints)
    assert found.blows["child"] > 0
