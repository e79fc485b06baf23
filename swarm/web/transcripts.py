"""An agent for the page: its journal page by page, its mailbox, its order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarm.agent.entries import decode_entry
from swarm.agent.items import Item
from swarm.agent.passages import detail
from swarm.agent.transcript import Narrator
from swarm.client.swarm import Swarm
from swarm.core.errors import JournalError, UnknownAgent
from swarm.mailbox import position_of
from swarm.store.journals import JournalPage, StoredEntry
from swarm.streaming.live.reader import LiveReader
from swarm.web.entries import is_reply, kind_of, message_ids, show_item, show_message

MOST_ENTRIES = 500
_MOST_BYTES = 2_000_000
"""Size limit of one page, before its texts are cut."""
_SHOWN_MAIL = 500
_SPEC = ("prompt", "model", "fallbacks", "mode", "workspace", "folders", "network", "name", "role", "limits")


def read_agent(swarm: Swarm, agent_id: str) -> dict[str, Any]:
    """Read an agent's row, ancestors, order and answer. Raises `UnknownAgent`."""
    store = swarm.store
    record = store.agents.get(agent_id)
    row = LiveReader(store).agents([agent_id])[agent_id]
    spec = store.agents.spec(agent_id).model_dump(mode="json")
    first = store.journals.page(agent_id, after=0, count=1).entries
    tools = _read_item(swarm, agent_id, first[0]).facts.get("tools", []) if first else []
    return {
        "now": store.now(),
        "job_id": record.job_id,
        "agent": row,
        "path": _path(swarm, record.parent_id),
        "spec": {**{name: spec.get(name) for name in _SPEC}, "tools": tools},
        "text": record.text,
        "data": json.loads(record.data) if record.data else None,
        "length": record.length,
    }


def read_journal(
    swarm: Swarm,
    agent_id: str,
    *,
    after: int | None = None,
    before: int | None = None,
    count: int = 200,
    turns: int | None = None,
) -> dict[str, Any]:
    """Read a page of an agent's journal; `turns` is the number of earlier replies, if known. Raises `UnknownAgent`."""
    page = swarm.store.journals.page(agent_id, after=after, before=before, count=max(1, min(count, MOST_ENTRIES)))
    kept = _keep_small(page.entries, from_end=after is None)
    earlier = turns_before(page, kept, after=after, turns=turns, before=before)
    entries = show_entries(swarm, agent_id, kept, earlier)
    numbers = [stored.number for stored in kept]
    return {
        "length": page.length,
        "first": numbers[0] if numbers else 0,
        "last": numbers[-1] if numbers else 0,
        "turns_before": earlier,
        "entries": entries,
    }


def read_entry(swarm: Swarm, agent_id: str, number: int) -> dict[str, Any]:
    """Read one entry of a journal, uncut. Raises `UnknownAgent` if it does not exist."""
    found = swarm.store.journals.page(agent_id, after=number - 1, count=1).entries if number > 0 else []
    if not found or found[0].number != number:
        raise UnknownAgent(f"agent {agent_id} has no journal entry {number}")
    return {"entry": show_item(number, _read_item(swarm, agent_id, found[0]), full=True)}


def read_mailbox(swarm: Swarm, agent_id: str) -> dict[str, Any]:
    """Read the last messages of an agent's mailbox, and the turn in which each was read. Raises `UnknownAgent`."""
    store = swarm.store
    store.agents.get(agent_id)
    # The mailbox first: a message read meanwhile is then shown as read.
    messages = list(store.mail.all(agent_id))
    taken: list[tuple[tuple[int, int], int, int]] = []
    turn, after = 1, 0
    while messages and (page := store.journals.page(agent_id, after=after).entries):
        for stored in page:
            turn += is_reply(stored)
            if ids := message_ids(stored):
                taken.append((position_of(ids[-1]), turn, stored.number))
        after = page[-1].number
    shown = []
    for message in messages[-_SHOWN_MAIL:]:
        read = next(((turn, entry) for up_to, turn, entry in taken if message.position <= up_to), (None, None))
        shown.append({**show_message(message), "read_in_turn": read[0], "read_at_entry": read[1]})
    return {"mail": messages[-1].id if messages else "0-0", "messages": shown}


def read_output(swarm: Swarm, agent_id: str, key: str) -> dict[str, Any]:
    """Read a tool's output that was too long for the conversation. Raises `UnknownAgent` if it does not exist."""
    text = swarm.store.outputs.load(agent_id, key)
    if text is None:
        raise UnknownAgent(f"agent {agent_id} has kept no output {key!r}")
    return {"text": text}


def turns_before(
    page: JournalPage, kept: Sequence[StoredEntry], *, after: int | None, before: int | None, turns: int | None
) -> int | None:
    """Count the replies before these entries of a page; None if that requires reading the whole journal."""
    replies = sum(map(is_reply, kept))
    if kept and kept[-1].number == page.length:
        return page.turns - replies
    if kept and kept[0].number == 1:
        return 0
    if turns is None:
        return None
    # Before the known page, or after it.
    return turns - replies if after is None and before is not None else turns


def show_entries(
    swarm: Swarm, agent_id: str, entries: Sequence[StoredEntry], earlier: int | None
) -> list[dict[str, Any]]:
    """Convert entries for the page; `earlier` is the number of replies before them, if known."""
    shown, turn = [], earlier
    for stored in entries:
        reply = is_reply(stored)
        turn = None if turn is None else turn + reply
        # Other entries belong to the next turn.
        at = None if turn is None else turn if reply else turn + 1
        shown.append(show_item(stored.number, _read_item(swarm, agent_id, stored), turn=at))
    return shown


def _read_item(swarm: Swarm, agent_id: str, stored: StoredEntry) -> Item:
    """Read an entry's item, which does not depend on where the page begins."""
    store, number = swarm.store, stored.number
    try:
        if number == 1 or kind_of(stored) == "redefined":  # the store resolves its hash
            return Narrator().item(next(store.journals.read(agent_id, number - 1, count=1)))
        return Narrator().item(decode_entry(stored.document, agent_id=agent_id, number=number))
    except (JournalError, StopIteration):
        title = f"an entry of a newer version: {kind_of(stored)}"
        return Item(kind="note", title=title, parts=[detail("its data", stored.document)])


def _path(swarm: Swarm, parent_id: str | None) -> list[str]:
    path: list[str] = []
    while parent_id is not None:
        path.insert(0, parent_id)
        [parent] = swarm.store.agents.find([parent_id])
        parent_id = None if parent is None else parent.parent_id
    return path


def _keep_small(entries: Sequence[StoredEntry], *, from_end: bool) -> list[StoredEntry]:
    """Keep as many entries as fit, and at least one."""
    kept: list[StoredEntry] = []
    size = 0
    for stored in reversed(entries) if from_end else entries:
        size += len(stored.document)
        if kept and size > _MOST_BYTES:
            break
        kept.append(stored)
    return kept[::-1] if from_end else kept
