"""Tables for terminals of any width: whole identifiers, least important columns dropped first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from swarm.cli.output import one_line, output_console, print_json, print_note

if TYPE_CHECKING:
    from rich.console import Console

_GAP = "  "
_MOST_CHARACTERS = 1_000
"""Maximum characters of a cell, even if the output is wider."""
_LEAST_FLEXIBLE = 16
"""Minimum width of a flexible column; a narrower one gets its own line."""


RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """One column of a table."""

    name: str
    cell: Callable[[RowT], object]
    """Compute a row's cell; None leaves it empty."""
    right: bool = False
    drop: int = 0
    """Order of dropping columns when space is short: highest first; 0 is never dropped."""
    flexible: bool = False
    """Whether the text may be cut, for at most one column per table."""


class Listing(Generic[RowT]):
    """A list shown as a table without rules, or as JSON of each row's `describe`."""

    def __init__(
        self,
        *columns: Column[RowT],
        otherwise: str = "",
        describe: Callable[[RowT], Any] = lambda row: row.model_dump(mode="json"),  # type: ignore[attr-defined]
        style: Callable[[RowT], str] = lambda row: "",
    ) -> None:
        self._columns, self._otherwise = columns, otherwise
        self._describe, self._style = describe, style

    def show(self, rows: Iterable[RowT], *, as_json: bool = False) -> None:
        """Print the rows on stdout; if there are none, print `otherwise` on stderr."""
        rows = list(rows)
        if as_json:
            print_json([self._describe(row) for row in rows])
        elif rows:
            self.print(rows, output_console())
        elif self._otherwise:
            print_note(self._otherwise)

    def print(self, rows: Sequence[RowT], console: Console) -> None:
        """Print the heading and the rows at the console's width."""
        from rich.text import Text

        cells = [[_show(column.cell(row)) for column in self._columns] for row in rows]
        # Without a terminal nothing is cut, because programs and `grep` want whole lines.
        laid_out = lay_out(self._columns, cells, console.width if console.is_terminal else None)
        for lines, style in zip(laid_out, ["bold", *map(self._style, rows)], strict=True):
            for line in lines:
                console.print(Text(line, style=style), soft_wrap=True)


def _show(cell: object) -> str:
    return "" if cell is None else one_line(str(cell), _MOST_CHARACTERS)


def lay_out(columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Lay out heading and rows in lines of at most `width` cells, unless words that must stay whole take more."""
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


def _fit_columns(columns: Sequence[Column[Any]], widths: list[int], kept: list[int], width: int) -> int | None:
    """Drop columns and narrow the flexible one; returns its index if it needs its own lines."""

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
    """Cut text to at most `width` terminal cells, with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1).rstrip() + "…"


def _fit(text: str, width: int, *, right: bool) -> str:
    from rich.cells import cell_len

    text = cut(text, width)
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank
