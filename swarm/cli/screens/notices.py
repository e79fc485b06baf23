"""Notices to a person away from the screen: questions and ended jobs. Pure, except for the terminal type."""

from __future__ import annotations

import os
from collections.abc import Mapping

from swarm.cli.output import one_line
from swarm.core.records import TERMINAL_STATES
from swarm.streaming.live.rows import Row

_MOST_CHARACTERS = 200
_WITHOUT = ("dumb", "linux")
"""Terminals that would print the sequence as text."""


def find_news(before: Mapping[str, Row], now: Mapping[str, Row]) -> list[str]:
    """Describe the changes between two snapshots of the newest jobs, one line each."""
    news = []
    for job_id, row in now.items():
        old = before.get(job_id, {"questions": 0, "state": ""})
        if row["questions"] > old["questions"]:
            news.append(f"asks you: {row['title']}")
        if row["state"] in TERMINAL_STATES and old["state"] not in TERMINAL_STATES:
            news.append(f"{row['state'].replace('_', ' ')}: {row['title']}")
    return news


def desktop_notice(news: list[str]) -> str:
    """The sequence that shows the news on the desktop (OSC 9); empty if the terminal does not support it."""
    if os.environ.get("TERM", "dumb") in _WITHOUT:
        return ""
    return f"\x1b]9;swarm: {one_line('; '.join(news), _MOST_CHARACTERS)}\x07"
