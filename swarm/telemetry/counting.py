"""What an entry of a journal adds to the figures: pure.

A key is `FIGURE|LABEL|…`; money is counted in nano-dollars, time in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Any

from swarm.records import NANO, Usage
from swarm.telemetry.names import SECONDS

BY_A_TOOL = "(tool)"
"""The model of requests that a tool made: entries do not name it."""


def count_reply(entry: Mapping[str, Any], model: str, *, rehearsed: bool) -> Counter[str]:
    """A reply, a summary, or what a tool asked of a model."""
    usage, found = Usage.model_validate(entry.get("usage") or {}), Counter[str]()
    found[f"input|{model}"] = usage.total_tokens - usage.output_tokens
    found[f"output|{model}"] = usage.output_tokens
    found[f"cache_read|{model}"] = usage.cache_read_input_tokens
    found[f"cache_write|{model}"] = usage.cache_creation_input_tokens
    found[f"cost|{model}|{str(rehearsed).lower()}"] = round(entry.get("cost_usd", 0.0) * NANO)
    return found


def count_seconds(figure: str, label: str, seconds: float) -> Counter[str]:
    """One observation of a histogram."""
    # Before a place, so that a `le` is never one of the labels.
    place = bisect_left(SECONDS, seconds)
    return Counter({f"{figure}|{label}|{place}": 1, f"{figure}|{label}|sum": round(seconds * 1000)})
