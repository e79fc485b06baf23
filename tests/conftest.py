"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from hypothesis import settings

from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import open_store
from tests.needs import count_skips
from tests.repeating import Repeating

settings.register_profile("swarm", deadline=None, max_examples=60)
settings.load_profile("swarm")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As with `nohup`. What tests start would inherit it, and a handler is not inherited.
    signal.signal(signal.SIGINT, lambda number, frame: None)


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among the collected tests: they are most objects of the process, and stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in one line what this machine lacks, and note for `tests.twice` which tests were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(count_skips(report.longrepr[2] for report in skipped))
    if cache := getattr(config, "cache", None):
        # Beside those of an earlier run, of other tests.
        cache.set("swarm/skipped", sorted({*cache.get("swarm/skipped", []), *(report.nodeid for report in skipped)}))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """A Redis of its own and no worker yet: for tests that start, stop or break something."""
    with closing(Fleet()) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def _staffed() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        fleet.start_worker(4)
        yield fleet


@pytest.fixture
def at_work(_staffed: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet at work, which tests share, as starting it takes longer than they do: only the workspace is the test's own."""
    with _staffed.lend(tmp_path / "workspace") as fleet:
        yield fleet


@pytest.fixture(scope="session")
def unmanned() -> Iterator[Fleet]:
    """A Redis without workers, which tests share: each has a swarm of its own in it."""
    with closing(Fleet()) as fleet:
        yield fleet


@pytest.fixture(params=[redis.Redis, Repeating], ids=["once", "repeated"])
def store(unmanned: Fleet, request: pytest.FixtureRequest) -> Store:
    """A swarm of the test's own: once as it is, and once with a client that sends every step twice."""
    return open_store(unmanned, request.param)
