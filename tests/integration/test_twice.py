"""What CI makes of tests that fail: a few get a second try and are named, more of them are a failure.

Tests of tests/twice.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    seen = pathlib.Path(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        raise AssertionError("not at the first try")

def test_steady():
    assert {steady}
"""


def run(folder: Path, suite: str, *arguments: str) -> tuple[int, list[str]]:
    (folder / "test_some.py").write_text(suite)
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p xdist",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.twice", str(folder / "cache"), *arguments],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return ran.returncode, ran.stdout.splitlines()


def test_five_tests_may_need_their_second_try_and_are_named(tmp_path: Path) -> None:
    code, said = run(tmp_path, SUITE.format(flaky=5, steady=True))
    assert code == 0, said
    assert "5 failed, 1 passed" in "\n".join(said)
    closing, *named = said[-6:]
    assert closing.startswith("5 passed")
    assert named == [f"needed a second try: test_some.py::test_flaky[{number}]" for number in range(5)]


def test_more_than_five_that_need_it_are_a_failure(tmp_path: Path) -> None:
    code, said = run(tmp_path, SUITE.format(flaky=6, steady=True))
    assert (code, said[-1]) == (1, "== 6 tests failed, and at most 5 get a second try")


def test_what_fails_twice_is_a_failure(tmp_path: Path) -> None:
    code, said = run(tmp_path, SUITE.format(flaky=1, steady=False))
    assert code == 1 and any("1 failed, 1 passed" in line for line in said), said


def test_tests_that_cannot_be_read_are_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, "import nothing_of_this_name")[0] not in (0, 5)


def test_what_was_skipped_can_be_run_again_with_others(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary")
    (tmp_path / "test_else.py").write_text("def test_else():\n    pass\n")
    (tmp_path / "test_third.py").write_text("def test_third():\n    pass\n")
    skipping = "import pytest\n\ndef test_skipping():\n    pytest.skip('make is missing')\n"
    code, said = run(tmp_path, skipping)
    assert code == 0 and "1 skipped: make 1" in said and said[-1].startswith("2 passed, 1 skipped"), said
    code, said = run(tmp_path, skipping, "--skipped", "test_else.py")
    assert code == 0 and said[-1].startswith("1 passed, 1 skipped"), said
