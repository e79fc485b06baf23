"""What a test needs of the machine: where it is missing, the test is skipped; where all must be there, it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(condition: object, reason: str) -> None:
    """Go on if `condition` is true; else skip because of `reason`, or fail under `SWARM_REQUIRE_ALL=1`."""
    if not condition:
        lack(reason)


def need_program(name: str) -> str:
    """Return where this program is on the PATH."""
    found = shutil.which(name)
    return found or lack(f"there is no `{name}` on the PATH")


def lack(reason: str) -> NoReturn:
    """Skip, or fail under `SWARM_REQUIRE_ALL=1`: something is missing."""
    if os.environ.get("SWARM_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason}, and SWARM_REQUIRE_ALL=1 is set: install it", pytrace=False)
    pytest.skip(reason)
