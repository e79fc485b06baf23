"""Run all tests, and once more, alone, the few that failed: `python -m tests.twice CACHE_FOLDER`, for CI.

Most tests wait for processes and timers, beside others that do. A failure that needs a crowd is no failure of the
project, but it is named, and more than `MAX_AGAIN` of them are a failure of the suite.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MAX_AGAIN = 2
SOME_FAILED = 1
"""How pytest ends if tests have failed; any other number but 0 means that it could not run them all."""


def main(cache: Path) -> int:
    """Run pytest; returns its exit code, that of the second run if there was one."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}"]
    code = subprocess.run(command).returncode
    if code != SOME_FAILED:
        return code
    failed = sorted(json.loads((cache / "v" / "cache" / "lastfailed").read_text()))
    if len(failed) > MAX_AGAIN:
        print(f"\n== {len(failed)} tests failed, and at most {MAX_AGAIN} get a second try", flush=True)
        return code
    print("\n== a second try, alone", flush=True)
    code = subprocess.run([*command, "-n", "0", *failed]).returncode
    print(*(f"needed a second try: {test}" for test in failed), sep="\n", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
