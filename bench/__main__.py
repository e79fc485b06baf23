"""Run benchmarks: `python -m bench` for all of them, `python -m bench NAME …` for some."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from bench.measure import Report

NAMES = (
    "counts",
    "turn_cpu",
    "fanout",
    "start_latency",
    "walks",
    "instructions",
    "memory",
    "pools",
    "tree",
    "park_wake",
    "journal",
    "durability",
    "workflows",
    "parked",
    "archive",
    "giant",
    "governor",
    "starts",
    "apart",
    "crowd",
    "messages",
    "long_life",
    "compaction",
    "submit",
    "throughput",
    "quick_start",
    "help",
    "sandbox",
    "mcp",
    "snapshot",
    "page",
    "page_view",
    "history",
)


def main() -> int:
    """Run what was asked for, in order; exit status 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(NAMES)}")
    parser.add_argument(
        "--agents", type=int, default=20_000, help="how many agents `parked` and `giant` make (up to 100000)"
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="how many jobs `archive` makes")
    parser.add_argument("--concurrency", type=int, default=64, help="pool processes of `throughput`")
    parser.add_argument("--accept", action="store_true", help="make what `counts` finds the budgets")
    parser.add_argument(
        "--record", action="store_true", help="`history` keeps this run's figures; alone, those of `counts`"
    )
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load before the run {load:.1f}, Python {sys.version.split()[0]}")
    report = Report()
    for name in chosen.names or NAMES:
        print(f"\n{name}: {(importlib.import_module(f'bench.{name}').__doc__ or '').splitlines()[0]}", flush=True)
        importlib.import_module(f"bench.{name}").run(report, chosen)
    if report.missed:
        print(f"\nbeyond their targets: {', '.join(report.missed)}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
