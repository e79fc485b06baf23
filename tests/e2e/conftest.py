"""Fixtures of the command's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli_world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world of the command's own; whatever is left in it is stopped in the end."""
    world = World(state=tmp_path / "s", home=tmp_path / "home", workspace=tmp_path / "work")
    world.home.mkdir()
    world.workspace.mkdir()
    yield world
    world.clear()
