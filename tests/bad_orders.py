"""Options that no job can have, for every surface that takes an order."""

from __future__ import annotations

from typing import Any

BAD: dict[str, dict[str, Any]] = {
    "misspelt": {"modle": "haiku"},
    "unknown": {"colour": "red"},
    "number-for-text": {"title": 5},
    "number-for-model": {"model": 5},
    "list-for-agent": {"agent": ["build"]},
    "unknown-mode": {"mode": "zzz"},
    "unknown-isolation": {"isolation": "yes"},
    "text-for-flag": {"network": "perhaps"},
    "text-for-summaries": {"summaries": "all"},
    "text-for-number": {"priority": "high"},
    "priority-too-low": {"priority": 0},
    "priority-too-high": {"priority": 101},
    "text-for-list": {"allow": "Bash"},
    "number-in-list": {"deny": [3]},
    "rule-that-cannot-be-read": {"ask": ["Bash(("]},
    "text-for-seconds": {"ask_seconds": "soon"},
    "negative-seconds": {"ask_seconds": -1},
    "too-many-tries": {"check": "true", "tries": 21},
    "no-time-for-a-check": {"check": "true", "check_seconds": 0},
    "long-check": {"check": "true", "check_seconds": 3_601},
    "empty-check": {"check": " "},
    "tries-of-nothing": {"tries": 2},
    "text-for-schema": {"result_schema": "object"},
    "no-schema": {"result_schema": {"type": "thing"}},
    "text-for-limits": {"limits": "none"},
    "unknown-limit": {"limits": {"max_turn": 3}},
    "limit-out-of-bounds": {"limits": {"max_depth": -1}},
    "no-money": {"limits": {"budget_usd": 0}},
    "no-folder": {"workspace": "/no/such/folder"},
    "number-for-folder": {"workspace": 7},
    "unknown-agent": {"agent": "nobody"},
    "patient-with-tools": {"batch": True, "agent": "build"},
    "number-for-prompt": {"prompt": 3},
    "empty-prompt": {"prompt": " "},
}
"""By what is wrong with them."""
REMOTE = {
    "base_url": "http://127.0.0.1:1",
    "on_end": {"task": "x"},
    "broker": "shop",
    "home_workspace": True,
    "webhook": "https://x.org",
}
"""Options that HTTP, MCP and the page do not take."""
