"""Run all tests, and once more, alone, the few that failed: `python -m tests.twice CACHE_FOLDER [PYTEST_ARGUMENT …]`, for CI.

Most tests wait for processes and timers, beside others that do. A failure that needs a crowd is no failure of the
project, but it is named, and more than `MAX_AGAIN` of them are a failure of the suite. The argument `--skipped` stands for
the tests that the last run with this folder skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

MAX_AGAIN = 5
SOME_FAILED = 1
"""How pytest ends if tests have failed; any other number but 0 means that it could not run them all."""


def main(cache: Path, arguments: list[str]) -> int:
    """Run pytest; returns its exit code, that of the second run if there was one."""
    options = [argument for argument in arguments if argument.startswith("-") and argument != "--skipped"]
    places = [argument for argument in arguments if not argument.startswith("-")]
    if "--skipped" in arguments:
        places += _read(cache, "swarm/skipped")
    command = [sys.executable, "-m", "pytest", "-q", *options]
    code = subprocess.run([*command, "-o", f"cache_dir={cache}", *places]).returncode
    if code != SOME_FAILED:
        return code
    failed = sorted(_read(cache, "cache/lastfailed"))
    if len(failed) > MAX_AGAIN:
        print(f"\n== {len(failed)} tests failed, and at most {MAX_AGAIN} get a second try", flush=True)
        return code
    print("\n== a second try, alone", flush=True)
    # It leaves what the first run has noted.
    code = subprocess.run([*command, "-p", "no:cacheprovider", "-n", "0", *failed]).returncode
    # Or the next run with this folder would count them as its own.
    (cache / "v" / "cache/lastfailed").write_text("{}")
    print(*(f"needed a second try: {test}" for test in failed), sep="\n", flush=True)
    return code


def _read(cache: Path, key: str) -> Iterable[str]:
    found: Iterable[str] = json.loads((cache / "v" / key).read_text())
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
