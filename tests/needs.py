"""What a test needs of the machine: where it is missing, the test is skipped; where all must be there, it fails."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

from swarm.permissions.sandbox import Backend, Wanted, choose_backend, network_trouble

_MISSING = re.compile(r"(?:Skipped: )?(.+?) is missing(?:: |$)")


def need(condition: object, thing: str, why: str = "") -> None:
    """Go on if `condition` is true; else this thing is missing."""
    if not condition:
        lack(thing, why)


def need_program(name: str) -> str:
    """Return where this program is on the PATH."""
    return shutil.which(name) or lack(name, f"there is no `{name}` on the PATH")


def need_sandbox(name: Wanted = "auto") -> Backend:
    """Return the sandbox of this name, or the best one that works here."""
    found = choose_backend(name)
    return found if isinstance(found, Backend) else lack("a sandbox" if name == "auto" else name, found.reason)


def need_network() -> Backend:
    """Return a sandbox that can give a command the network without its host."""
    backend = need_sandbox("bubblewrap")
    need((trouble := network_trouble(backend)) is None, "slirp4netns", trouble or "")
    return backend


def lack(thing: str, why: str = "") -> NoReturn:
    """Skip, or fail under `SWARM_REQUIRE_ALL=1`: this thing is missing."""
    reason = f"{thing} is missing" + (f": {why}" if why else "")
    if os.environ.get("SWARM_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason}; SWARM_REQUIRE_ALL=1 is set: install it", pytrace=False)
    pytest.skip(reason)


def count_skips(reasons: Iterable[str]) -> str:
    """Return one line: how many tests were skipped, by what is missing."""
    things = Counter(found[1] if (found := _MISSING.match(reason)) else "nothing missing" for reason in reasons)
    return f"{things.total()} skipped: " + ", ".join(f"{thing} {count}" for thing, count in things.most_common())
