"""The line that says what of the tests this machine could not run.

Tests of tests/needs.py.
"""

from __future__ import annotations

import pytest

from tests.needs import count_skips, need_program


def test_skips_are_counted_by_what_is_missing_most_first() -> None:
    reasons = [
        "Skipped: make is missing: there is no `make` on the PATH",
        "Skipped: bubblewrap is missing: it is not installed; this: is missing",
        "Skipped: bubblewrap is missing",
        "Skipped: landlock does not promise it: files",
    ]
    assert count_skips(reasons) == "4 skipped: bubblewrap 2, make 1, nothing missing 1"


def test_a_program_that_is_missing_skips_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARM_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        need_program("no-such-program")
    assert count_skips([str(skipped.value)]) == "1 skipped: no-such-program 1"
