"""A Rich console that shows strings from anywhere as plain text; imported only for drawing."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from swarm.cli.output import plain


class PlainConsole(Console):
    """A console that ignores control sequences and markup in strings."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does, with strings made plain."""
        super().print(*(plain(each) if isinstance(each, str) else each for each in objects), **options)
