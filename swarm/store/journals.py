"""Journals in Redis: appending, and reading from the beginning, the end, or the last cut on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from swarm.agent.entries import (
    Assistant,
    Compacted,
    Entry,
    Hooked,
    Ruled,
    Started,
    Switched,
    ToolFinished,
    Verdict,
    decode_entry,
    encode_entry,
)
from swarm.agent.history import History, fold
from swarm.agent.needs import Needs
from swarm.agent.snapshot import restore
from swarm.core.errors import JournalError
from swarm.core.plain import clean_text
from swarm.core.records import VerdictView
from swarm.core.usage import Charge, Counters
from swarm.store.keyspace import Keyspace, check_claim, no_agent
from swarm.store.prefixes import Prefixes
from swarm.store.slots import CallEnd, SlotReservation, read_slot
from swarm.store.values import UNBOUNDED, Appended, Claim, Signals

_PAGE = 500
"""Entries fetched at a time."""
_LAST_PAGE = 100
_WITHOUT_CHOICE = 6
"""Most parts of the answer of an append for whose agent no person chose a model."""
_CUT = re.compile(r'^\{[^{}]{0,200}"kind": ?"compacted"')


@dataclass(frozen=True)
class StoredEntry:
    """A journal entry as stored."""

    number: int
    seq: int
    """The entry's number among all journal entries and events of the job."""
    document: str
    """The entry as JSON."""


@dataclass(frozen=True)
class JournalPage:
    """Some journal entries, with the number of entries and turns at the same moment."""

    entries: list[StoredEntry]
    turns: int
    length: int


class Beside(TypedDict, total=False):
    """Further effects of a step that appends entries."""

    activity: str
    """The agent's current activity."""
    counters: Counters | None
    """Amounts to add to the agent's and the job's sums besides the charges of the entries."""
    next_call: Charge | None
    """The estimated charge of the model call that follows, in case its reply is lost."""
    settle: bool
    """Whether to return the reserved amounts."""
    said: str
    """The text to keep if the agent is ended from outside."""
    call: CallEnd | None
    """The end of a model call."""
    reported: Sequence[str]
    """Further requests whose use the entries report, by the names under which the agent's record holds it."""


class JournalStore:
    """The journals of agents."""

    def __init__(self, keyspace: Keyspace, prefixes: Prefixes, document: Callable[[str], str | None]) -> None:
        self._keyspace, self._prefixes, self._document = keyspace, prefixes, document

    def read(self, agent_id: str, after: int = 0, *, count: int = _PAGE) -> Iterator[Entry]:
        """The journal's entries after number `after`, in order, read `count` at a time.

        Raises `JournalError` for an entry that cannot be read, or a gap in the numbers.
        """
        while True:
            page = self._keyspace.client.xrange(
                self._keyspace.key("journal", agent_id), f"({after}-0" if after else "-", "+", count=count
            )
            for entry_id, fields in page:
                number = int(entry_id.split("-", 1)[0])
                if number != after + 1:
                    raise JournalError(f"agent {agent_id}: journal entry {after + 1} is missing")
                yield self._decode(agent_id, number, fields["e"])
                after = number
            if len(page) < count:
                return

    def history(self, agent_id: str) -> History:
        """The folded history of an agent; reads only entries since its last cut. Raises `JournalError`."""
        newer: list[tuple[int, str]] = []
        for number, document in self._backwards(agent_id):
            if _CUT.match(document) and (history := self._restore(agent_id, number, document)) is not None:
                for later, text in reversed(newer):
                    history.apply(decode_entry(text, agent_id=agent_id, number=later))
                return history
            newer.append((number, document))
        entries = (self._decode(agent_id, *stored) for stored in reversed(newer))
        return fold(agent_id, entries, self.read)

    def go_on(self, history: History, last: Entry) -> bool:
        """Apply what the journal has after a history's last entry.

        Returns False if `last` is not the entry there, as in a Redis that has lost its end: the history must then be forgotten.
        """
        entries = self.read(history.agent_id, history.length - 1)
        if next(entries, None) != last:
            return False
        for entry in entries:
            history.apply(entry)
        return True

    def _backwards(self, agent_id: str) -> Iterator[tuple[int, str]]:
        """Yield stored entries, newest first. Raises `JournalError` for a gap in the numbers."""
        before = 0
        while True:
            key, last = self._keyspace.key("journal", agent_id), f"({before}-0" if before else "+"
            page = self._keyspace.client.xrevrange(key, last, "-", count=_LAST_PAGE)
            for entry_id, fields in page:
                number = int(entry_id.split("-", 1)[0])
                if before and number != before - 1:
                    raise JournalError(f"agent {agent_id}: journal entry {before - 1} is missing")
                yield number, fields["e"]
                before = number
            if len(page) < _LAST_PAGE:
                break
        if before > 1:
            raise JournalError(f"agent {agent_id}: journal entry {before - 1} is missing")

    def _decode(self, agent_id: str, number: int, document: str) -> Entry:
        entry = decode_entry(document, agent_id=agent_id, number=number)
        return self._prefixes.put_back(entry, self._document) if isinstance(entry, Started) else entry

    def _restore(self, agent_id: str, number: int, document: str) -> History | None:
        entry = decode_entry(document, agent_id=agent_id, number=number)
        started = next(self.read(agent_id, count=1), None)
        if not isinstance(entry, Compacted) or not isinstance(started, Started):
            return None
        owner = started.spec.parent_id if started.spec.fork is not None else None
        opened = int((entry.folded or {}).get("history", {}).get("opened", 1))
        prefix = next(self.read(owner or agent_id, opened - 1, count=1), None)
        return restore(agent_id, started if owner else prefix, prefix, entry) if isinstance(prefix, Started) else None

    def last_commit(self, agent_id: str) -> str:
        """The last commit in an agent's journal besides its first one; empty if there is none."""
        before = "+"
        while page := self._keyspace.client.xrevrange(self._keyspace.key("journal", agent_id), before, count=_PAGE):
            for _, fields in page:
                if commit := json.loads(fields["e"]).get("commit"):
                    return str(commit)
            before = f"({page[-1][0]}"
        return ""

    def last_entry(self, agent_id: str) -> Entry | None:
        """The journal's last entry; None if there is none. Raises `JournalError`."""
        for entry_id, fields in self._keyspace.client.xrevrange(self._keyspace.key("journal", agent_id), count=1):
            return decode_entry(fields["e"], agent_id=agent_id, number=int(entry_id.split("-")[0]))
        return None

    def stored(self, agent_id: str, *, after: int = 0, count: int = _PAGE) -> list[StoredEntry]:
        """The first entries of the agent's journal after that number, undecoded, including those this version cannot read."""
        return self.page(agent_id, after=after, count=count).entries

    def page(
        self, agent_id: str, *, after: int | None = None, before: int | None = None, count: int = _PAGE
    ) -> JournalPage:
        """The first entries after one number, or the last before one, or of all. Raises `UnknownAgent`."""
        key, pipeline = self._keyspace.key("journal", agent_id), self._keyspace.client.pipeline(transaction=True)
        pipeline.hmget(self._keyspace.key("agent", agent_id), "state", "turns", "length")
        if after is not None:
            pipeline.xrange(key, f"({after}-0" if after else "-", "+", count=count)
        else:
            pipeline.xrevrange(key, f"({before}-0" if before else "+", "-", count=count)
        (state, turns, length), found = pipeline.execute()
        if state is None:
            raise no_agent(agent_id)
        entries = sorted((read_stored(*each) for each in found), key=lambda stored: stored.number)
        return JournalPage(entries, int(turns or 0), int(length or 0))

    def lengths(self, agent_ids: Sequence[str]) -> list[int]:
        """The number of entries of each journal; 0 for a missing agent."""
        return [int(record["length"] or 0) for record in self._keyspace.fetch("agent", agent_ids, ["length"])]

    def append(
        self,
        claim: Claim,
        number: int,
        entries: Sequence[Entry],
        *,
        reservation: SlotReservation | None = None,
        model: str = "",
        most: tuple[int, int] = UNBOUNDED,
        **beside: Unpack[Beside],
    ) -> Appended:
        """Append entries, the first as number `number`; `reservation` asks for a slot for the next model call.

        `model` is the one in the agent's record; without it, its specification's. `most` are the MiB above which the journal, and those of
        the job, count as full.

        Raises `NotOwner` or `AgentCancelled` without changing anything.
        """
        documents, digest, prefix = self._encode(entries)
        call, lost = beside.get("call"), beside.get("next_call")
        words = clean_text(beside.get("activity", "")), clean_text(beside.get("said", ""))
        changed = json.dumps(_spent(claim, model, entries, beside.get("counters") or Counters()))
        given = (
            *(claim.agent_id, claim.generation, number, words[0], changed, int(beside.get("settle", False)), words[1]),
            *("" if call is None else call.encode(), "" if reservation is None else reservation.encode()),
            json.dumps(lost.counters().changed()) if lost else "",
            _name_side_calls(entries, number, beside.get("reported", ())),
        )
        bounds = json.dumps(most)
        answer = self._keyspace.run("append", *given, digest, "", bounds, *documents)
        if answer[0] == "document":
            answer = self._keyspace.run("append", *given, digest, prefix, bounds, *documents)
        check_claim(answer, claim)
        if answer[0] != "ok":
            # A repeat: the agents that the first attempt woke are in the outbox.
            return Appended(None, Signals())
        slot = None if reservation is None else read_slot(reservation.limit_class, answer[4])
        full: Any = answer[5] if len(answer) > 5 else ""
        chosen = answer[6] if len(answer) > _WITHOUT_CHOICE else ""
        return Appended(int(answer[1]), Signals(publish=answer[2]), answer[3], slot, full, chosen)

    def _encode(self, entries: Sequence[Entry]) -> tuple[list[str], str, str]:
        """Return the entries as JSON, and hash and text of the prefix that one of them names."""
        documents, digest, prefix = [], "", ""
        for entry in entries:
            if isinstance(entry, Started):
                entry, digest, prefix = self._prefixes.take_out(entry)
            documents.append(encode_entry(entry))
        return documents, digest, prefix

    def judge_end(self, claim: Claim, number: int, entry: Verdict) -> Appended:
        """Append a verdict as entry `number`. Raises `NotOwner` or `AgentCancelled` without changing anything."""
        told = entry.model_dump_json(include=set(VerdictView.model_fields))
        answer = self._keyspace.run("judge_end", claim.agent_id, claim.generation, number, encode_entry(entry), told)
        check_claim(answer, claim)
        if answer[0] != "ok":
            # A repeat.
            return Appended(None, Signals())
        return Appended(int(answer[1]), Signals(publish=answer[2]))

    def switch_model(self, claim: Claim, number: int, entry: Switched, needs: Needs) -> Appended:
        """Append a switch as entry `number`, and note the model in the agent's record. Raises `NotOwner` or `AgentCancelled`."""
        told = json.dumps({name: getattr(entry, name) for name in ("was", "reason", "why")})
        wanted = (entry.model, needs.model_dump_json(), " ".join(needs.wants))
        given = (claim.agent_id, claim.generation, number, encode_entry(entry), *wanted, told)
        answer = self._keyspace.run("switch_model", *given)
        check_claim(answer, claim)
        if answer[0] != "ok":
            # A repeat.
            return Appended(None, Signals())
        return Appended(int(answer[1]), Signals(publish=answer[2]))


def hook_call(number: int) -> str:
    """Name the run of hooks whose results begin with the entry of this number, as a call with side requests."""
    return f"hook-{number}"


def _name_side_calls(entries: Sequence[Entry], first: int, reported: Sequence[str]) -> str:
    """Return the calls whose side requests these entries report, as JSON; empty for none."""
    paid = [
        hook_call(number) if isinstance(entry, Hooked) else entry.tool_use_id
        for number, entry in enumerate(entries, first)
        if isinstance(entry, ToolFinished | Ruled | Hooked) and not entry.is_free
    ]
    paid += reported
    return json.dumps(paid) if paid else ""


def _spent(claim: Claim, model: str, entries: Sequence[Entry], sums: Counters) -> dict[str, Any]:
    """Return the sums with the charges of entries; `aside` are those of other models than the agent's, which the step adds up."""
    aside, own = dict[str, Counters](), ("", model or claim.spec.model)
    for entry in entries:
        if not isinstance(entry, Charge):
            continue
        for charge in (entry, *entry.beside) if isinstance(entry, Assistant | ToolFinished) else (entry,):
            if charge.is_free:
                continue
            sums += charge.counters()
            if charge.model not in own and claim.spec.base_url is None:
                aside[charge.model] = aside.get(charge.model, Counters()) + charge.counters()
    by_model = {"aside": {model: part.changed() for model, part in aside.items()}} if aside else {}
    return {**sums.changed(), **by_model}


def read_stored(entry_id: str, fields: Mapping[str, str]) -> StoredEntry:
    """Decode an entry of a journal's stream."""
    return StoredEntry(int(entry_id.split("-")[0]), int(fields.get("seq", 0)), fields["e"])
