"""Tables for terminals of any width: words that must be typed are never cut, and what matters least is left out first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm.cli.output import one_line, output_console, print_note

if TYPE_CHECKING:
    from rich.console import Console

_GAP = "  "
_MOST_CHARACTERS = 300
"""Of a cell, however wide the output is."""
_LEAST_FLEXIBLE = 16
"""A flexible column that would be narrower than this stands on a line of its own."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    right: bool = False
    drop: int = 0
    """What is left out first where there is no room: the highest; 0 stays whatever happens."""
    flexible: bool = False
    """Its text may be cut. One column of a table at most."""


class Listing:
    """A table without lines; each cell is plain text of one line."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[list[str]] = []
        self._styles: list[str] = []

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row, a cell for each column, of which at most a line is shown."""
        self._rows.append([one_line(cell, _MOST_CHARACTERS) for cell in cells])
        self._styles.append(style)

    def lines(self, width: int | None) -> list[list[str]]:
        """The heading and the rows, each as the one line or two that it takes; None is any width."""
        return lay_out(self._columns, self._rows, width)

    def show(self, otherwise: str = "") -> None:
        """Print it on stdout; where it has no rows, say on stderr what is given for that."""
        if self._rows:
            self.print(output_console())
        elif otherwise:
            print_note(otherwise)

    def print(self, console: Console) -> None:
        """Print it as wide as the console is."""
        from rich.text import Text

        # What does not go to a terminal is never cut: programs and `grep` want whole lines.
        laid_out = self.lines(console.width if console.is_terminal else None)
        for lines, style in zip(laid_out, ["bold", *self._styles], strict=True):
            for line in lines:
                console.print(Text(line, style=style), soft_wrap=True)


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """The heading and the rows as lines of at most `width` cells, unless words that must stay whole take more."""
    from rich.cells import cell_len

    table = [[column.name for column in columns], *rows]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(columns))]
    kept = list(range(len(columns)))
    below = None if width is None else _fit_columns(columns, widths, kept, width)
    laid_out = []
    for row in table:
        lines = [_GAP.join(_fit(row[at], widths[at], right=columns[at].right) for at in kept).rstrip()]
        if below is not None and row is not table[0] and row[below]:
            lines.append(f"    {cut(row[below], max(_LEAST_FLEXIBLE, (width or 0) - 4))}")
        laid_out.append(lines)
    return laid_out


def _fit_columns(columns: Sequence[Column], widths: list[int], kept: list[int], width: int) -> int | None:
    """Leave out columns, and narrow the flexible one; returns that one if it must stand on lines of its own."""

    def least() -> int:
        needed = [min(widths[at], _LEAST_FLEXIBLE) if columns[at].flexible else widths[at] for at in kept]
        return sum(needed) + len(_GAP) * (len(kept) - 1)

    while least() > width and any(columns[at].drop for at in kept):
        kept.remove(max(kept, key=lambda at: columns[at].drop))
    flexible = next((at for at in kept if columns[at].flexible), None)
    if flexible is None:
        return None
    others = sum(widths[at] for at in kept if at != flexible) + len(_GAP) * (len(kept) - 1)
    widths[flexible] = min(widths[flexible], max(0, width - others))
    if least() <= width or len(kept) == 1:
        return None
    kept.remove(flexible)
    return flexible


def cut(text: str, width: int) -> str:
    """The text in at most so many cells of a terminal, with an ellipsis if there is more of it."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1).rstrip() + "…"


def _fit(text: str, width: int, *, right: bool) -> str:
    from rich.cells import cell_len

    text = cut(text, width)
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank
