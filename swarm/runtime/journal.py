"""An agent's journal as its running segment writes it: entries are stored, then applied.

A reply is held back first, so that one step stores it with its immediate successors: the start of a call, or the results of quick
reads. If the process dies in between, the reply is requested again, as after a death just before its own step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, Unpack

from pydantic import BaseModel

from swarm.agent.entries import (
    Assistant,
    Compacted,
    Entry,
    Exchanged,
    HooksBegun,
    Mail,
    Started,
    Switched,
    ToolFinished,
    ToolStarted,
    Verdict,
)
from swarm.agent.history import History
from swarm.agent.needs import Needs
from swarm.core.plain import clean
from swarm.mailbox import Message
from swarm.runtime.share import Share
from swarm.store.durable import Disk
from swarm.store.journals import Beside
from swarm.store.store import Store
from swarm.store.values import UNBOUNDED, Claim, Counters, Signals

EntryT = TypeVar("EntryT", bound=BaseModel)
_kept: dict[str, tuple[History, Entry]] = {}
"""Agent id → the history of a parked agent with its last entry, for its next segment in this process; at most one.

It saves time and nothing else: a journal that has another entry there is read from the beginning, as by any other process."""


class Journal:
    """An agent's journal and the history folded from it, under one claim.

    Every write raises `NotOwner` or `AgentCancelled` when the claim is gone, and then changes nothing.
    """

    def __init__(
        self,
        claim: Claim,
        store: Store,
        publish: Callable[[Signals], None] | None = None,
        share: Share | None = None,
        disk: Disk | None = None,
        most: tuple[int, int] = UNBOUNDED,
    ) -> None:
        """`publish` carries out a step's effects; without it the outbox does so later.

        `share` is the agent's part of the fleet's share of the model; without it no share is asked for. `most` are the MiB above which the
        agent's journal, and those of its job, count as full."""
        self.claim, self.store, self._publish, self._disk = claim, store, publish, disk
        self.share = share or Share(claim, "", None)
        self.history, self._most = History(claim.agent_id), most
        self.full: Literal["", "agent", "job"] = ""
        """The owner of journals without room for further turns, as of the last append."""
        self.unread = claim.unread
        """Unread messages in the mailbox, as of the last write."""
        self.wanted = claim.wanted
        """The conversation summary that a person wants, as JSON, as of the last write."""
        self.chosen = claim.chosen
        """The model that a person wants, as JSON, as of the last write."""
        self._held: list[Entry] = []
        self._beside_held: Beside = {}
        self._last: Entry | None = None
        """The last entry of the history, if this process knows it."""

    def load(self) -> History:
        """Read the journal from its last cut on, or from the end of a history that was kept. Raises `JournalError`."""
        known = _kept.pop(self.claim.agent_id, None)
        if known is not None and self.store.journals.go_on(*known):
            self.history, self._last = known
            return self.history
        # Most agents have one segment, so an empty journal is not read.
        if self.claim.length != 0 or self.history.length:
            self.history = self.store.journals.history(self.claim.agent_id)
        return self.history

    def keep(self) -> None:
        """Keep the history for the agent's next segment in this process, perhaps in another thread. This one must not use it afterwards."""
        if self._last is not None:
            _kept.clear()
            _kept[self.claim.agent_id] = self.history, self._last

    @property
    def next_number(self) -> int:
        """The number of the next entry, for a step that writes it; a held entry is stored first."""
        self.flush()
        return self.history.length + 1

    def stamp(self, entry: EntryT) -> EntryT:
        """Add time and generation to an entry, and bring it into the form that the journal returns."""
        update: dict[str, Any] = {"at": self.claim.now(), "generation": self.claim.generation}
        # The first entry has many small parts, clean already: they come from records and from the cached prefix.
        return (entry if isinstance(entry, Started) else clean(entry)).model_copy(update=update)

    def append(self, entries: Sequence[Entry], **beside: Unpack[Beside]) -> None:
        """Store entries and apply them.

        Where durability is configured, waits until important entries are on disk.

        If they lead to another model call, its slot is requested with them.
        """
        self._write([self.stamp(entry) for entry in entries], beside)

    def hold(self, entry: Entry, **beside: Unpack[Beside]) -> None:
        """Apply an entry, and store it with the next ones. Call `flush` before longer work."""
        self.flush()
        self._held, self._beside_held = [self.stamp(entry)], beside
        self.history.apply(self._held[0])
        self._last = self._held[0]

    def apply(self, entry: Entry) -> None:
        """Take in an entry that another step has stored."""
        self.history.apply(entry)
        self._last = entry

    @property
    def holds(self) -> bool:
        """Whether an entry is held back."""
        return bool(self._held)

    def flush(self) -> None:
        """Store the held entry, if any."""
        if self._held:
            self._write([], {})

    def _write(self, entries: Sequence[Entry], beside: Beside) -> None:
        reservation, next_call = self.share.foresee(self.history, entries) if entries else (None, None)
        stored, number = [*self._held, *entries], self.history.length + 1 - len(self._held)
        effects: Beside = {**_add_up(self._beside_held, beside), "next_call": next_call}
        # A failed step is not repeated by `flush`: it may have stored these.
        self._held, self._beside_held = [], {}
        appended = self.store.journals.append(
            self.claim, number, stored, reservation=reservation, model=self.share.model, most=self._most, **effects
        )
        self.full = appended.full
        self.unread = self.unread if appended.unread is None else appended.unread
        self.wanted = self.wanted if appended.wanted is None else appended.wanted
        self.chosen = appended.chosen or self.chosen
        if reservation is not None:
            self.share.slot = appended.slot
        for entry in entries:
            self.history.apply(entry)
            self._last = entry
        if self._disk is not None and any(self._must_hold(self._disk, entry) for entry in stored):
            self._disk.wait(self.store.keyspace)
        if self._publish is not None and appended.effect.publish:
            self._publish(appended.effect)

    @staticmethod
    def _must_hold(disk: Disk, entry: Entry) -> bool:
        effects = ToolStarted | HooksBegun
        return isinstance(entry, effects | Assistant | Compacted) and disk.holds(effect=isinstance(entry, effects))

    def append_results(self, results: Sequence[ToolFinished]) -> None:
        """Store the results of calls, counted, with the usage of their tools' model requests."""
        asked = any(not result.is_free for result in results)
        self.append(results, counters=Counters(tools=len(results)), settle=asked)

    def take_in(self, entry: Mail | Exchanged, messages: Sequence[Message]) -> None:
        """Store the entry with these messages of the mailbox."""
        entry = self.stamp(entry)
        unread = self.store.mail.take(self.claim, self.next_number, entry, messages)
        # A repeated step does not report the count: look again.
        self.unread = 1 if unread is None else unread
        self.apply(entry)

    def switch(self, entry: Switched, needs: Needs) -> None:
        """Store a switch to another model, which workers with these capabilities can ask."""
        entry = self.stamp(entry)
        appended = self.store.journals.switch_model(self.claim, self.next_number, entry, needs)
        self.unread = self.unread if appended.unread is None else appended.unread
        self.history.apply(entry)
        if self._publish is not None and appended.effect.publish:
            self._publish(appended.effect)

    def append_verdict(self, verdict: Verdict) -> None:
        """Store a verdict on the agent's work, also in its record."""
        entry = self.stamp(verdict)
        appended = self.store.journals.judge_end(self.claim, self.next_number, entry)
        self.unread = self.unread if appended.unread is None else appended.unread
        self.apply(entry)


def _add_up(held: Beside, later: Beside) -> Beside:
    """The effects of both, with the later activity if there is one."""
    if not held:
        return later
    sums = (held.get("counters") or Counters()) + (later.get("counters") or Counters())
    return {**held, **later, "counters": sums, "settle": held.get("settle", False) or later.get("settle", False)}
