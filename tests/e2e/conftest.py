"""Fixtures of the command's tests, and of the page's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import Tab, running_chromium
from tests.e2e.cli_world import World
from tests.e2e.page_world import Site, opened_tab, running_site


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. Not for the whole session: while Playwright lives, this thread has an event loop."""
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A fleet at work with the page in front of it, which tests share."""
    with running_site() as site:
        yield site


@pytest.fixture
def tab(browser: Any, site: Site) -> Iterator[Tab]:
    """A tab of the site's page, in which nothing may go wrong."""
    with opened_tab(browser, site.flower) as tab:
        yield tab
