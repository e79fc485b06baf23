"""Figures by commit, from `history.csv`: as a table here, as a plot in `history.svg`."""

from __future__ import annotations

import csv
import subprocess
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench import counts
from bench.measure import Report

FILE, PLOT = (Path(__file__).with_name(f"history.{kind}") for kind in ("csv", "svg"))
SHOWN = 8
"""Commits in the table."""
_COLUMNS, _WIDTH, _HEIGHT = 4, 240, 64
_CODE = ("swarm", "tasks", "mailbox")


class Figure(NamedTuple):
    """A line of the file."""

    date: str
    """Of the commit, in UTC."""
    commit: str
    name: str
    value: float


def read(path: Path) -> list[Figure]:
    """Return all figures, oldest commit first."""
    with path.open(newline="") as file:
        return [Figure(date, commit, name, float(value)) for date, commit, name, value in list(csv.reader(file))[1:]]


def write(path: Path, figures: Iterable[Figure]) -> None:
    """Write the figures; of two of one commit and name, the later one counts."""
    last = {(each.date, each.commit, each.name): each for each in figures}
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("date", "commit", "figure", "value"))
        rows.writerows((*each[:3], f"{each.value:.10g}") for each in sorted(last.values(), key=lambda each: each.date))


def describe_head(root: Path) -> tuple[str, str]:
    """Return the date and the short id of the commit that is checked out. Raises `SystemExit` if the code is another one."""
    if _git(root, "status", "--porcelain", "--", *_CODE):
        raise SystemExit(
            f"the code differs from its commit, so its figures belong to none: commit {', '.join(_CODE)} first"
        )
    seconds, commit = _git(root, "log", "-1", "--abbrev=10", "--format=%ct %h").split()
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), commit


def tabulate(figures: Sequence[Figure]) -> list[str]:
    """Return a line for each figure: its values in the last commits, and the change from the first to the last of them."""
    commits = list(dict.fromkeys(each.commit for each in figures))[-SHOWN:]
    lines = [f"{'':32}" + "".join(f"{commit[:8]:>10}" for commit in commits) + f"{'change':>10}"]
    for name, values in _by_name(figures).items():
        shown = [values[commit] for commit in commits if commit in values]
        change = f"{shown[-1] / shown[0] - 1:+.1%}" if shown and shown[0] else ""
        cells = (f"{values[commit]:g}" if commit in values else "" for commit in commits)
        lines.append(f"{name:32}" + "".join(f"{cell:>10}" for cell in cells) + f"{change:>10}")
    return lines


def plot(figures: Sequence[Figure]) -> str:
    """Return an SVG with a small curve for each figure, from zero to its largest value."""
    commits = list(dict.fromkeys(each.commit for each in figures))
    cells = [
        _draw(name, [values.get(commit) for commit in commits], *divmod(number, _COLUMNS))
        for number, (name, values) in enumerate(_by_name(figures).items())
    ]
    size = f'width="{_COLUMNS * _WIDTH}" height="{-(-len(cells) // _COLUMNS) * _HEIGHT}"'
    style = "text{font:11px sans-serif;fill:#888}polyline{fill:none;stroke:#07c;stroke-width:1.5}circle{fill:#07c}"
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{style}</style>", *cells, "</svg>\n"]
    )


def _draw(name: str, values: Sequence[float | None], row: int, column: int) -> str:
    most = max(value for value in values if value is not None) or 1
    step = (_WIDTH - 24) / max(1, len(values) - 1)
    points = [(8 + step * at, 58 - 36 * value / most) for at, value in enumerate(values) if value is not None]
    last = next(value for value in reversed(values) if value is not None)
    return (
        f'<g transform="translate({column * _WIDTH} {row * _HEIGHT})"><text x="8" y="14">{escape(name)}: {last:g}</text>'
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="2"/></g>'
    )


def _by_name(figures: Iterable[Figure]) -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for each in figures:
        found.setdefault(each.name, {})[each.commit] = each.value
    return found


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def run(report: Report, chosen: Namespace) -> None:
    """Show the figures; with `--record` add those of this run, or of `counts`, for the commit that is checked out."""
    if chosen.record:
        date, commit = describe_head(counts.ROOT)
        if not report.figures:
            counts.run(report, chosen)
        write(FILE, [*read(FILE), *(Figure(date, commit, name, value) for name, value in report.figures.items())])
    figures = read(FILE)
    PLOT.write_text(plot(figures))
    for line in tabulate(figures):
        report.note(line)
