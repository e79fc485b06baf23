"""Fixtures of the tests that step a job through the store, without workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from swarm.store.agents import Store
from tests.fleet import Fleet
from tests.job_world import Repeating, open_store, serve_redis


@pytest.fixture(scope="module")
def server() -> Iterator[Fleet]:
    """A Redis of the module's own, without workers."""
    yield from serve_redis()


@pytest.fixture(params=[redis.Redis, Repeating], ids=["once", "repeated"])
def store(server: Fleet, request: pytest.FixtureRequest) -> Store:
    """The store as it is, and with a client that sends every step twice."""
    return open_store(server, request.param)
