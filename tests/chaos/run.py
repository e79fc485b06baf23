"""The chaos run by hand: `python -m tests.chaos.run --minutes 60` plays every scenario and writes one report.

The report is FILE.json, for people FILE.md; what each job has left is beside it in FILE-jobs/, to be judged again by
`python -m tests.chaos.check FILE-jobs/*`. Most of the time goes to `fleet`, whose memory is watched.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos.report import Report, render
from tests.chaos.scenarios import PLANS, lacking, lasting, play

_SHORT_SHARE = 0.04
"""Of the time, for each scenario but the first one that is played."""


def main() -> int:
    """Play the scenarios; the exit code is 1 when a promise was broken, 2 when nothing could be played."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="how long blows are dealt in all; each job ends after its last"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("chaos.json"), metavar="FILE.json")
    parser.add_argument(
        "--only", nargs="+", choices=list(PLANS), default=list(PLANS), help="the scenarios; default: all"
    )
    given = parser.parse_args()
    missing = {name: why for name in given.only if (why := lacking(name))}
    names = [name for name in given.only if name not in missing]
    if not names:
        parser.error("; ".join(f"{name}: {why}" for name, why in missing.items()))
    report = Report(given.report, seed=given.seed, minutes=given.minutes, lacking=missing)
    for name, seconds in _shares(names, given.minutes * 60).items():
        section = play(lasting(name, seconds, given.seed), given.report.with_name(f"{given.report.stem}-jobs"))
        report.add(section)
        print(
            f"{name}: {'held' if section.held else 'BROKEN'}, {section.seconds:.0f} s, {len(section.blows)} blows",
            flush=True,
        )
    print(f"\n{render(report.as_json())}")
    return 0 if report.as_json()["held"] else 1


def _shares(names: list[str], seconds: float) -> dict[str, float]:
    """How long each scenario may deal blows: the others a little each, the first one the rest."""
    first, *others = names
    return {first: seconds * (1 - _SHORT_SHARE * len(others)), **dict.fromkeys(others, seconds * _SHORT_SHARE)}


if __name__ == "__main__":
    sys.exit(main())
