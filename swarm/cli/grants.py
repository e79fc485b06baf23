"""Listings of grants in a workspace's files: all, or the changes since the last approval.

A line wider than the terminal is wrapped; nothing is cut.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from swarm.cli.output import plain
from swarm.definitions.grants import Grant

if TYPE_CHECKING:
    from rich.console import Console

_LEAST_WIDTH = 20


def list_grants(grants: Sequence[Grant], console: Console, last: Sequence[Grant] = ()) -> list[str]:
    """Lines that show grants, grouped by file; with `last`, each is marked as new, changed or gone."""
    sources = dict.fromkeys(grant.source for grant in (*grants, *last))
    lines = []
    for source in sources:
        lines += _wrap(source, "", console)
        for mark, grant, details in _compare(
            [g for g in grants if g.source == source], [g for g in last if g.source == source]
        ):
            note = {"+": "new: ", "-": "no longer: ", "~": "changed: "}[mark] if last and mark in "+-~" else ""
            lines += _wrap(f"{note}{grant.text}", "  ", console)
            for detail in details:
                lines += _wrap(detail, "    ", console)
    return lines


def _compare(now: list[Grant], last: list[Grant]) -> Iterator[tuple[str, Grant, list[str]]]:
    """Each grant with its mark, and its changed lines if its text does not show them."""
    for grant in dict.fromkeys(now):
        before = next((one for one in last if one.text == grant.text), None)
        if grant in last:
            yield " ", grant, []
        elif before is None:
            yield "+", grant, []
        else:
            yield "~", grant, _differ(before.content, grant.content)
    texts = {grant.text for grant in now}
    yield from (("-", one, []) for one in dict.fromkeys(last) if one.text not in texts)


def _differ(before: str, now: str) -> list[str]:
    found = difflib.unified_diff(_content_lines(before), _content_lines(now), lineterm="", n=0)
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]


def _content_lines(content: str) -> list[str]:
    """Split a grant's content into lines: one per value of a table, or the lines of a longer text."""
    try:
        table = json.loads(content)
    except ValueError:
        table = None
    if not isinstance(table, dict):
        return content.splitlines()
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in table.items()}
    return [f"{key}: {line}" for key, value in values.items() for line in value.splitlines()]


def _wrap(text: str, indent: str, console: Console) -> list[str]:
    """Wrap text to the console's width, with a hanging indent."""
    from rich.text import Text

    lines: list[str] = []
    for line in text.splitlines() or [""]:
        width = max(console.width - len(indent) - 2, _LEAST_WIDTH)
        shown = Text(" ".join(plain(line).split()))
        lines += [part.plain.rstrip() for part in shown.wrap(console, width, overflow="fold")]
    return [f"{indent}{'  ' if at else ''}{line}" for at, line in enumerate(lines)]
