"""Rows of agents and jobs for watchers, small enough that a patch may hold many. Pure.

A row is a JSON object; the page in Flower gets it unchanged. It is made directly from the record in Redis, without a typed view:
opening the page of a job reads its whole tree, which may have a thousand agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swarm.core.records import TERMINAL_STATES, VerdictView, money_of
from swarm.core.usage import NANO, Counters

Row = dict[str, Any]
Record = Mapping[str, str | None]

_COUNTS = ("turns", "tools", "input", "output", "cache_write", "cache_read")
_MONEY = ("cost", "estimated", "unpriced")
_AGENT_TEXTS = (
    *("label", "definition", "state", "activity", "phase", "summary", "reason", "isolation", "merge", "stopped_at"),
)
_AGENT_TIMES = {f"{name}_at": name for name in ("created", "queued", "started", "active", "ended")}
_AGENT_NAMES = {"parent_id": "parent", "name": "name", "question": "wait_question", "worker": "worker"}
_FLAGS = ("idle", "background", "teammate")
AGENT_FIELDS = (
    *_AGENT_TEXTS,
    *_AGENT_TIMES.values(),
    *_AGENT_NAMES.values(),
    *_FLAGS,
    *_COUNTS,
    *_MONEY,
    *("depth", "needs", "model", "rehearsed", "waited", "unread", "unread_notes", "deaths", "verdicts"),
)
"""Fields read from an agent's record."""
JOB_FIELDS = (
    *("root", "title", "digest", "workspace", "state", "reason", "created", "ended", "agents", "unread", "deadline"),
    *("max_running", "max_tokens", "max_cost", "reserved_tokens", "reserved_cost", "cost", "rehearsed", "map"),
    *("estimated", "unpriced"),
    *_COUNTS,
)
"""Fields read from a job's record."""


def agent_row(agent_id: str, found: Record, unserved: str = "") -> Row:
    """Make the row of an existing agent; its counters exclude the agents below it."""
    needs = json.loads(found["needs"] or "{}")
    row: Row = {
        "id": agent_id,
        "depth": _count(found, "depth"),
        "model": found["model"] or needs.get("model", ""),
        "workflow": any(want.startswith("workflow:") for want in needs.get("wants", ())),
    }
    row |= {name: found[name] or "" for name in _AGENT_TEXTS}
    row |= {name: found[field] or None for name, field in _AGENT_NAMES.items()}
    row |= {name: _time(found, field) for name, field in _AGENT_TIMES.items()}
    row |= {name: found[name] == "1" for name in _FLAGS}
    row |= {name: _count(found, name) for name in _COUNTS}
    row |= _cost(found)
    row["tokens"] = sum(row[name] for name in _COUNTS[2:])
    verdicts = json.loads(found["verdicts"] or "[]")
    row["verdict"] = VerdictView.model_validate(verdicts[-1]).headline if verdicts else ""
    row["ended"] = row["state"] in TERMINAL_STATES
    row["at_work"] = not row["ended"] and not row["idle"]
    row["queued_seconds"] = float(found["waited"] or 0)
    row["unread"] = _count(found, "unread") - _count(found, "unread_notes")
    row["deaths"] = _count(found, "deaths")
    row["unserved"] = unserved if row["state"] == "queued" else ""
    return row


def job_row(job_id: str, found: Record, *, running: int, queued: int, questions: int) -> Row:
    """Make the row of an existing job, with the numbers of running agents, queued agents and open questions."""
    row: Row = {"id": job_id, "root_id": found["root"], "running": running, "queued": queued, "questions": questions}
    row |= {name: found[name] or "" for name in ("title", "digest", "workspace", "state", "reason", "map")}
    row |= {name: _time(found, field) for name, field in (("created_at", "created"), ("ended_at", "ended"))}
    row |= {name: _count(found, name) for name in (*_COUNTS, "agents", "unread", "max_running")}
    row |= _cost(found)
    row["budget_usd"] = None if found["max_cost"] is None else int(found["max_cost"]) / NANO
    row["max_tokens"] = None if found["max_tokens"] is None else int(found["max_tokens"])
    row["deadline"] = _time(found, "deadline")
    row["reserved_tokens"], row["reserved_usd"] = (
        _count(found, "reserved_tokens"),
        _count(found, "reserved_cost") / NANO,
    )
    over = row["state"] in TERMINAL_STATES
    row["group"] = "needs_you" if questions or row["unread"] else "ended" if over else "running"
    return row


def _cost(found: Record) -> Row:
    """Return the fields about money, and whether it is a rehearsal."""
    counted, rehearsed = Counters(**{name: _count(found, name) for name in _MONEY}), bool(found["rehearsed"])
    return {**money_of(counted, rehearsed=rehearsed), "rehearsed": rehearsed}


def _count(found: Record, name: str) -> int:
    return int(found[name] or 0)


def _time(found: Record, name: str) -> float | None:
    value = found[name]
    return float(value) if value else None
