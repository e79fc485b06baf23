"""Write a job's history to Redis, as an ended job or as a new one in which some agents continue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from swarm.core.records import OpenState
from swarm.replay.past import Past, PastAgent
from swarm.replay.shared_state import Shared
from swarm.replay.store import PastStore
from swarm.store.outputs import OutputStore
from swarm.store.store import Store
from swarm.store.values import Signals

_AT_ONCE = 50
IMPORTED = "imported"
"""Field of an imported job's record: its history came from a file, so it is granted no rights."""
_FROZEN = "it was exported while running; `swarm replay` continues it"
_LIVE = (
    "line",
    "wait_mode",
    "wait_mail",
    "wait_tasks",
    "wait_question",
    "open_questions",
    "wait_tokens",
    "wait_cost",
    "idle",
    "worker",
    "activity",
    "lease",
)


def import_past(
    store: Store,
    past: Past,
    *,
    queue: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    team: Mapping[str, str] | None = None,
    shared: Shared | None = None,
) -> Signals:
    """Create the job from its history.

    `queue` lists the agents that continue, `names` maps names to agents' ids, `shared` is its board and pad. Raises `ConfigurationError`
    if there is a job with that id.
    """
    records = PastStore(store.keyspace, past.job_id)
    for digest, text in past.documents.items():
        records.import_past("document", {"digest": digest, "text": text})
    sizes = Counter[str]()
    for place, agent in enumerate(past.agents.values()):
        sizes.update(agent.sizes())
        sizes["object_bytes"] += _import_agent(records, store.outputs, agent, place)
    _import_messages(records, "events", "", past.events)
    for part in shared.parts() if shared is not None else ():
        records.import_past("shared", part)
    numbers = [entry.seq for agent in past.agents.values() for entry in agent.entries]
    numbers += [int(fields.get("seq", 0)) for _, fields in past.events]
    request = {
        "fields": past.fields | sizes | (shared.fields if shared is not None else {}),
        "names": dict(names or {}),
        "seq": max(numbers, default=0),
        "queue": list(queue),
        **({"team": dict(team)} if team else {}),
    }
    return records.plant_job(request)


def _import_agent(records: PastStore, outputs: OutputStore, agent: PastAgent, place: int) -> int:
    """Import an agent; returns the bytes of its outputs that are objects."""
    at = float(agent.fields.get("created", 0)) + place * 1e-6
    # The step that appends entries sets the journal's length.
    fields = {name: value for name, value in (agent.fields | agent.sizes()).items() if name != "length"}
    records.import_past("agent", {"id": agent.id, "parent": agent.parent, "fields": fields, "at": at})
    for first in range(0, len(agent.entries), _AT_ONCE):
        part = agent.entries[first : first + _AT_ONCE]
        entries = [[one.number, one.seq, one.text()] for one in part]
        records.import_past("entries", {"id": agent.id, "entries": entries})
    _import_messages(records, "mail", agent.id, agent.mail)
    objects = 0
    for key, text in agent.outputs.items():
        placed = outputs.place(records.job_id, text)
        records.import_past("output", {"id": agent.id, "key": key, **placed})
        objects += int(placed["bytes"]) if placed["address"] else 0
    return objects


def _import_messages(records: PastStore, what: str, owner: str, messages: Sequence[Any]) -> None:
    for first in range(0, len(messages), _AT_ONCE):
        records.import_past(what, {"id": owner, "messages": messages[first : first + _AT_ONCE]})


def freeze(past: Past) -> Past:
    """Mark the job of this history as ended, whatever its state was; nothing of it runs here."""
    for agent in past.agents.values():
        _end(agent.fields)
    _end(past.fields)
    past.fields[IMPORTED] = "1"
    past.fields["root"] = past.fields.get("root") or next(iter(past.agents))
    for name in ("kept", "keeping", "expires", "callback", "callback_broker", "deadline", "era", "order"):
        past.fields.pop(name, None)
    return past


def _end(fields: dict[str, str]) -> None:
    for name in _LIVE:
        fields.pop(name, None)
    if fields.get("state") in get_args(OpenState):
        fields.update(state="cancelled", reason=_FROZEN)
