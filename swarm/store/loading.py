"""Loading an agent: its journal from the last cut on, which costs what has come since and not what the life has been."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swarm.agent.entries import Compacted, Entry, Started, decode_entry
from swarm.agent.life import Life, fold
from swarm.agent.snapshot import restore
from swarm.errors import JournalError
from swarm.store.agents import Store

_PAGE = 100
_CUT = re.compile(r'^\{[^{}]{0,200}"kind": ?"compacted"')


def load_life(store: Store, agent_id: str) -> Life:
    """What an agent's journal amounts to. Raises `JournalError`."""
    newer: list[tuple[int, str]] = []
    for number, document in _backwards(store, agent_id):
        if _CUT.match(document) and (life := _restore(store, agent_id, number, document)) is not None:
            for later, text in reversed(newer):
                life.apply(decode_entry(text, agent_id=agent_id, number=later))
            return life
        newer.append((number, document))
    entries = (_decode(store, agent_id, *stored) for stored in reversed(newer))
    return fold(agent_id, entries, store.journal)


def _backwards(store: Store, agent_id: str) -> Iterator[tuple[int, str]]:
    """The entries as they are stored, the last one first. Raises `JournalError` for a gap in the numbers."""
    before = 0
    while True:
        key, last = store.key("journal", agent_id), f"({before}-0" if before else "+"
        page = store.client.xrevrange(key, last, "-", count=_PAGE)
        for entry_id, fields in page:
            number = int(entry_id.split("-", 1)[0])
            if before and number != before - 1:
                raise JournalError(f"agent {agent_id}: journal entry {before - 1} is missing")
            yield number, fields["e"]
            before = number
        if len(page) < _PAGE:
            break
    if before > 1:
        raise JournalError(f"agent {agent_id}: journal entry {before - 1} is missing")


def _decode(store: Store, agent_id: str, number: int, document: str) -> Entry:
    entry = decode_entry(document, agent_id=agent_id, number=number)
    return store.with_prefix(entry) if isinstance(entry, Started) else entry


def _restore(store: Store, agent_id: str, number: int, document: str) -> Life | None:
    entry = decode_entry(document, agent_id=agent_id, number=number)
    started = next(store.journal(agent_id, count=1), None)
    if not isinstance(entry, Compacted) or not isinstance(started, Started):
        return None
    owner = started.spec.parent_id if started.spec.fork is not None else None
    opened = int((entry.folded or {}).get("life", {}).get("opened", 1))
    prefix = next(store.journal(owner or agent_id, opened - 1, count=1), None)
    return restore(agent_id, started if owner else prefix, prefix, entry) if isinstance(prefix, Started) else None
