"""What makes a test a unit test: it starts no process and opens no socket. One that tries fails, and belongs elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

FORBIDDEN = {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "socket.__new__"}
tried: list[str] = []
"""What the phase that runs now would have done."""
guarding = False


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if guarding and event in FORBIDDEN:
        tried.append(f"{event} {arguments!r:.200}")
        raise PermissionError(f"a unit test starts no process and opens no socket, but this one does: {tried[-1]}")


sys.addaudithook(_refuse)


def _guard() -> Iterator[None]:
    global guarding
    tried.clear()
    guarding = True
    try:
        yield
    finally:
        guarding = False
    # The code under test may have taken the refusal for a failure of its own.
    if tried:
        pytest.fail(f"this is no unit test: {', '.join(tried)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    yield from _guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    yield from _guard()
