"""Rich's console, which takes strings from anywhere and shows them plain. Imported only where something is drawn."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from swarm.cli.output import plain


class PlainConsole(Console):
    """A console that no string can give orders to."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As Rich's, with strings made plain."""
        super().print(*(plain(each) if isinstance(each, str) else each for each in objects), **options)
