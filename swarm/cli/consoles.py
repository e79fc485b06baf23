"""Rich's console and table, which take strings from anywhere and show them plain. Imported only where something is drawn."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from swarm.cli.output import plain


class PlainConsole(Console):
    """A console that no string can give orders to."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As Rich's, with strings made plain."""
        super().print(*(plain(each) if isinstance(each, str) else each for each in objects), **options)


class PlainTable(Table):
    """A table that no string in a cell can give orders to; a cell is one line."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """As Rich's, with strings made plain."""
        super().add_row(*(plain(each) if isinstance(each, str) else each for each in cells), **options)
