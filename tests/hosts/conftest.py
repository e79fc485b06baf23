"""Hosts for tests: a network of them that tests share, whole again before each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.hosts.network import HostNetwork


@pytest.fixture(scope="session")
def _network() -> Iterator[HostNetwork]:
    with closing(HostNetwork("left", "right", hub=True, recheck_seconds="3")) as network:
        for station in network.stations:
            station.begin_work()
        yield network


@pytest.fixture
def network(_network: HostNetwork) -> HostNetwork:
    """Two stations at work, `left` and `right`, and a hub: what the last test broke is mended."""
    _network.mend()
    return _network
