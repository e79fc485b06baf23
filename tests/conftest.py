"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.fleet import Fleet

settings.register_profile("swarm", deadline=None, max_examples=60)
settings.load_profile("swarm")


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """A Redis of its own and no worker yet."""
    fleet = Fleet()
    try:
        yield fleet
    finally:
        fleet.close()
