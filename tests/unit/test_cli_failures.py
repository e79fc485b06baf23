"""What a command says of a failure that only the system has words for.

Tests of swarm/cli/failures.py, swarm/core/errors.py.
"""

from __future__ import annotations

import errno

import pytest

from swarm.cli.failures import report


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory"),
            "this shell's folder has been removed",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"), "No such file or directory: a.txt"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device, in the output or in /var/state: free",
        ),
    ],
)
def test_a_failure_of_the_system_says_where_and_what_to_do(
    error: OSError, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_STATE_DIR", "/var/state")
    assert report(error) == 1
    assert said in capsys.readouterr().err
