"""Journals as Redis keeps them, read from the beginning, from the end, or from the last cut on; nothing here changes one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from swarm.agent.entries import Compacted, Entry, Started, decode_entry
from swarm.agent.life import Life, fold
from swarm.agent.snapshot import restore
from swarm.agent.spec import AgentSpec
from swarm.core.errors import JournalError, UnknownAgent
from swarm.store.documents import read_record
from swarm.store.upkeep import Upkeep

_PAGE = 500
"""Entries fetched at a time."""
_LAST_PAGE = 100
_CUT = re.compile(r'^\{[^{}]{0,200}"kind": ?"compacted"')


class Journals(Upkeep):
    """The part of a store that reads what agents have lived, and what they have left of files."""

    def journal(self, agent_id: str, after: int = 0, *, count: int = _PAGE) -> Iterator[Entry]:
        """The journal's entries after number `after`, in order, read `count` at a time.

        Raises `JournalError` for an entry that cannot be read, or a gap in the numbers.
        """
        while True:
            page = self.client.xrange(self.key("journal", agent_id), f"({after}-0" if after else "-", "+", count=count)
            for entry_id, fields in page:
                number = int(entry_id.split("-", 1)[0])
                if number != after + 1:
                    raise JournalError(f"agent {agent_id}: journal entry {after + 1} is missing")
                yield self._decode(agent_id, number, fields["e"])
                after = number
            if len(page) < count:
                return

    def load_life(self, agent_id: str) -> Life:
        """What an agent's journal amounts to, at the cost of what has come since its last cut. Raises `JournalError`."""
        newer: list[tuple[int, str]] = []
        for number, document in self._backwards(agent_id):
            if _CUT.match(document) and (life := self._restore(agent_id, number, document)) is not None:
                for later, text in reversed(newer):
                    life.apply(decode_entry(text, agent_id=agent_id, number=later))
                return life
            newer.append((number, document))
        entries = (self._decode(agent_id, *stored) for stored in reversed(newer))
        return fold(agent_id, entries, self.journal)

    def _backwards(self, agent_id: str) -> Iterator[tuple[int, str]]:
        """The entries as they are stored, the last one first. Raises `JournalError` for a gap in the numbers."""
        before = 0
        while True:
            key, last = self.key("journal", agent_id), f"({before}-0" if before else "+"
            page = self.client.xrevrange(key, last, "-", count=_LAST_PAGE)
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
        return self._prefixes.put_back(entry, self.document) if isinstance(entry, Started) else entry

    def _restore(self, agent_id: str, number: int, document: str) -> Life | None:
        entry = decode_entry(document, agent_id=agent_id, number=number)
        started = next(self.journal(agent_id, count=1), None)
        if not isinstance(entry, Compacted) or not isinstance(started, Started):
            return None
        owner = started.spec.parent_id if started.spec.fork is not None else None
        opened = int((entry.folded or {}).get("life", {}).get("opened", 1))
        prefix = next(self.journal(owner or agent_id, opened - 1, count=1), None)
        return restore(agent_id, started if owner else prefix, prefix, entry) if isinstance(prefix, Started) else None

    def last_commit(self, agent_id: str) -> str:
        """The last commit that an agent's journal names, besides the one that it begins as; empty if there is none."""
        before = "+"
        while page := self.client.xrevrange(self.key("journal", agent_id), before, count=_PAGE):
            for _, fields in page:
                if commit := json.loads(fields["e"]).get("commit"):
                    return str(commit)
            before = f"({page[-1][0]}"
        return ""

    def last_entry(self, agent_id: str) -> Entry | None:
        """The journal's last entry; None for an agent that has none. Raises `JournalError`."""
        for entry_id, fields in self.client.xrevrange(self.key("journal", agent_id), count=1):
            return decode_entry(fields["e"], agent_id=agent_id, number=int(entry_id.split("-")[0]))
        return None

    def spec(self, agent_id: str) -> AgentSpec:
        """What an agent was started with. Raises `UnknownAgent`, `UnreadableRecord`."""
        document = self.client.hget(self.key("agent", agent_id), "spec")
        if document is None:
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        return read_record(AgentSpec, document, f"what {agent_id} was started with")
