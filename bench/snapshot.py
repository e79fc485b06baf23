"""A workspace's snapshot after a turn, against git's own commands for it; and what a shared workspace pays for nothing."""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from bench.measure import Report, alternate
from swarm.workspace.git_command import call_git
from swarm.workspace.repository import Repository

SIZES = (1_000, 10_000, 100_000)
CHANGED = 10
"""Files that a turn changes; one more is new."""
ROUNDS = 9
_LINES = "a line of some length, as in a program\n" * 40


def run(report: Report, chosen: Namespace) -> None:
    """Both keep an index between turns, and both see the same changes, in turns."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            _measure(report, size, Path(folder).resolve())


def _measure(report: Report, size: int, folder: Path) -> None:
    tree = folder / "tree"
    files = _fill(tree, size)
    ours, theirs = Repository.make(folder / "ours.git", tree), Repository.make(folder / "theirs.git", tree)
    tip: dict[str, str | None] = {"ours": None, "theirs": None}

    def snapshot() -> None:
        tip["ours"] = ours.snapshot(tip["ours"], {"turn": 1}).commit or tip["ours"]

    def commands() -> None:
        def git(*arguments: str) -> str:
            return call_git(theirs.git_dir, arguments, tree=tree)[1].decode().strip()

        git("add", "-A", "--", ".")
        kept = git("write-tree")
        parents = ["-p", tip["theirs"]] if tip["theirs"] else []
        tip["theirs"] = git("commit-tree", kept, *parents, "-m", "{}")

    began = _timed(snapshot), _timed(commands)
    report.note(f"{size:,} files, the first time: {began[0]:.2f} s; git's commands {began[1]:.2f} s")
    # What was written in the second of the index is looked into each time.
    time.sleep(1.1)
    (tree / "settle").write_text("x")
    snapshot()
    commands()
    turns = itertools.count()
    took: list[float] = []
    bare: list[float] = []
    for number in range(ROUNDS):
        _change(tree, files, next(turns))
        # Whoever comes second finds the files in memory.
        for act, times in ((snapshot, took), (commands, bare)) if number % 2 else ((commands, bare), (snapshot, took)):
            times.append(_timed(act))
    same, back = alternate(ROUNDS, lambda: _timed(snapshot), lambda: _timed(lambda: ours.become(str(tip["ours"]))))
    middle, other = statistics.median(took) * 1e3, statistics.median(bare) * 1e3
    told = f"nothing changed {statistics.median(same) * 1e3:.0f} ms, already as the commit {statistics.median(back) * 1e3:.0f} ms"
    report.note(f"{size:,} files, {CHANGED + 1} changed: {middle:.0f} ms, git's commands {other:.0f} ms; {told}")
    report.figure(f"snapshot, {size:,} files", middle / other, "×", target=1.3)


def _fill(tree: Path, size: int) -> list[Path]:
    files = [tree / f"d{number % 100}" / f"e{number // 100 % 50}" / f"f{number}.py" for number in range(size)]
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n{_LINES}")
    return files


def _change(tree: Path, files: list[Path], turn: int) -> None:
    for file in random.Random(turn).sample(files, CHANGED):
        file.write_text(f"turn {turn}\n{_LINES}")
    (tree / f"new{turn}").write_text("new\n")


def _timed(act: Callable[[], None]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began
