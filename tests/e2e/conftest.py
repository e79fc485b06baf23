"""Fixtures of the command's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli_world import World


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world in which `swarm up` has run, for tests that do not care how workers come and go."""
    world = _make_world(tmp_path_factory.mktemp("stack"))
    try:
        started = world.run("up", "--concurrency", "3")
        assert started.returncode == 0, started.stderr.decode()
        yield world
    finally:
        world.clear()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world of the command's own; whatever is left in it is stopped in the end."""
    world = _make_world(tmp_path)
    yield world
    world.clear()


def _make_world(folder: Path) -> World:
    world = World(state=folder / "s", home=folder / "home", workspace=folder / "work")
    world.home.mkdir()
    world.workspace.mkdir()
    return world
