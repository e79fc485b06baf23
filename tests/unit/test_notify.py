"""The command of `swarm run --notify`, as it is split into words.

Tests of swarm/cli/notifications.py.
"""

from __future__ import annotations

import pytest

from swarm.cli.notifications import read_command
from swarm.core.errors import ConfigurationError


def test_a_command_is_words_and_no_shell() -> None:
    assert read_command("notify-send 'swarm; $(id)' *") == ["notify-send", "swarm; $(id)", "*"]


@pytest.mark.parametrize(("given", "why"), [("say 'it", "split into words"), ("  ", "is empty")])
def test_a_command_that_cannot_be_run_is_refused(given: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        read_command(given)
