"""How soon a request that failed is worth making again.

Tests of swarm/models/failures.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.core.errors import TransientModelError
from swarm.models.failures import CAP_SECONDS, backoff_seconds

randoms = st.floats(min_value=0, max_value=1, exclude_max=True)
kinds = st.sampled_from(["overloaded", "server", "connection", "timeout", "cut"])


def failure(kind: str, retry_after: float | None = None) -> TransientModelError:
    return TransientModelError("failed", kind=kind, retry_after_seconds=retry_after)


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("connection", [0.5, 1, 2, 4, 8, 16, 32, 60, 60]),
        ("overloaded", [1, 2, 4, 8, 8, 8]),
    ],
)
def test_the_wait_doubles_from_a_start_that_depends_on_the_kind(kind: str, waits: list[float]) -> None:
    assert [backoff_seconds(n, failure(kind), 1.0) for n in range(len(waits))] == waits


@given(attempt=st.integers(min_value=0, max_value=100_000), kind=kinds, random=randoms)
def test_the_wait_lies_between_half_and_all_of_its_ceiling(attempt: int, kind: str, random: float) -> None:
    ceiling = backoff_seconds(attempt, failure(kind), 1.0)
    assert ceiling <= CAP_SECONDS
    assert ceiling / 2 <= backoff_seconds(attempt, failure(kind), random) <= ceiling


@given(attempt=st.integers(0, 50), kind=kinds, random=randoms, reservation=st.floats(min_value=0.001, max_value=3600))
def test_the_servers_wish_is_never_undercut_and_barely_exceeded(
    attempt: int, kind: str, random: float, reservation: float
) -> None:
    assert reservation <= backoff_seconds(attempt, failure(kind, reservation), random) <= reservation * 1.1


def test_after_a_rate_limit_nobody_waits_alone_for_the_governor_knows_when_there_is_room() -> None:
    assert [
        backoff_seconds(n, failure("rate_limit", reservation), 0.5) for n in range(9) for reservation in (None, 60.0)
    ] == [0] * 18
