"""A job's complete history in memory, from Redis or from a file of JSON lines.

Reading changes nothing. File order: a header, the job, its documents, then each agent with its journal, mailbox and kept outputs, the
events, and an end record. The end has the number of records, so a truncated file is recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.entries import Entry, Started, decode_entry
from swarm.core.errors import ConfigurationError
from swarm.replay.store import PastStore
from swarm.store.store import Store

VERSION = 1
_FORMAT = "swarm-export"
_PAGE = 500
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass
class PastEntry:
    """A journal entry as it is stored."""

    number: int
    seq: int
    document: dict[str, Any]

    def text(self) -> str:
        """The entry as it is imported."""
        return json.dumps(self.document, ensure_ascii=False)


@dataclass
class PastAgent:
    """One agent's record, journal, mailbox and kept outputs."""

    id: str
    fields: dict[str, str]
    entries: list[PastEntry] = field(default_factory=list)
    mail: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def parent(self) -> str:
        """Id of the parent; empty for the first agent."""
        return self.fields.get("parent", "")

    def sizes(self) -> dict[str, int]:
        """The fields of its record that count its bytes."""
        return {
            "journal_bytes": sum(len(entry.text().encode()) for entry in self.entries),
            "mail_bytes": sum(len(fields.get("body", "").encode()) for _, fields in self.mail),
            "output_bytes": sum(len(text.encode()) for text in self.outputs.values()),
        }

    @property
    def spec(self) -> dict[str, Any]:
        """The agent's initial spec, as JSON."""
        return dict(json.loads(self.fields["spec"]))


@dataclass
class Past:
    """A job with all its data; agents are in the order of their starts."""

    job_id: str
    fields: dict[str, str]
    documents: dict[str, str] = field(default_factory=dict)
    agents: dict[str, PastAgent] = field(default_factory=dict)
    events: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    redacted: str = ""
    """Removed data: `secrets` or `words`."""

    @property
    def root(self) -> str:
        """The id of the first agent."""
        return self.fields["root"]

    def count_turns(self, agent_id: str) -> int:
        """The number of an agent's turns."""
        return sum(one.document["kind"] == "assistant" for one in self.agents[agent_id].entries)

    def journal(self, agent_id: str) -> Iterator[Entry]:
        """Read an agent's journal, with its request prefix. Raises `JournalError`, `ConfigurationError`."""
        for stored in self.agents[agent_id].entries:
            text = json.dumps(stored.document)
            entry = decode_entry(text, agent_id=agent_id, number=stored.number)
            yield self._with_prefix(entry) if isinstance(entry, Started) else entry

    def _with_prefix(self, entry: Started) -> Started:
        update: dict[str, Any] = {}
        if entry.prefix:
            update |= json.loads(self._document(entry.prefix))
        if entry.instructions:
            update["guidance"] = json.loads(self._document(entry.instructions))["text"]
        return entry.model_copy(update=update)

    def _document(self, digest: str) -> str:
        if digest not in self.documents:
            raise ConfigurationError(f"{self.job_id} lacks the document {digest[:12]}: it was removed or has expired")
        return self.documents[digest]


def read_past(store: Store, job_id: str) -> Past:
    """Read the job in its current state. Raises `UnknownAgent`."""
    store.jobs.get(job_id)
    records = PastStore(store.keyspace, job_id)
    past = Past(job_id, records.job())
    for digest in (past.fields.get("definitions", ""), *carried_by(past.fields).values()):
        _take_document(store, past, digest)
    # A job's documents may refer to more, such as a skill to its files.
    for digest in {found for text in list(past.documents.values()) for found in _DIGEST.findall(text)}:
        _take_document(store, past, digest)
    for agent_id in store.agents.ids([job_id]):
        agent = past.agents[agent_id] = PastAgent(agent_id, records.agent(agent_id))
        agent.entries = [
            PastEntry(one.number, one.seq, json.loads(one.document)) for one in _all_entries(store, agent_id)
        ]
        for entry in agent.entries:
            # Prefix of the requests, at first and after a change of definition.
            for name in ("prefix", "instructions") if entry.document["kind"] in ("started", "redefined") else ():
                _take_document(store, past, entry.document.get(name, ""))
        agent.mail = records.stream("mail", agent_id)
        agent.outputs = dict(store.outputs.all(agent_id))
    past.events = records.stream("events", job_id)
    return past


def carried_by(fields: Mapping[str, str]) -> dict[str, str]:
    """Digests of a job's documents besides its definitions, by kind."""
    return dict(json.loads(fields.get("carried") or "{}"))


def _all_entries(store: Store, agent_id: str) -> Iterator[Any]:
    after = 0
    while page := store.journals.stored(agent_id, after=after, count=_PAGE):
        yield from page
        after = page[-1].number


def _take_document(store: Store, past: Past, digest: str) -> None:
    if digest and digest not in past.documents and (text := store.jobs.document(digest)) is not None:
        past.documents[digest] = text


def write_lines(past: Past, write: Callable[[str], Any]) -> int:
    """Write the job as JSON lines; returns the number of records."""
    count = 0
    for record in _records(past):
        write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
        count += 1
    write(json.dumps({"t": "end", "records": count}) + "\n")
    return count


def _records(past: Past) -> Iterator[dict[str, Any]]:
    yield {"t": _FORMAT, "v": VERSION, "job": past.job_id, "redacted": past.redacted}
    yield {"t": "job", "fields": past.fields}
    for digest, text in past.documents.items():
        yield {"t": "document", "digest": digest, "text": text}
    for agent in past.agents.values():
        yield {"t": "agent", "id": agent.id, "fields": agent.fields}
        for entry in agent.entries:
            yield {"t": "entry", "n": entry.number, "seq": entry.seq, "e": entry.document}
        for mail_id, fields in agent.mail:
            yield {"t": "mail", "id": mail_id, "fields": fields}
        for key, text in agent.outputs.items():
            yield {"t": "output", "key": key, "text": text}
    for event_id, fields in past.events:
        yield {"t": "event", "id": event_id, "fields": fields}


def read_lines(lines: Iterable[str], source: str) -> Past:
    """Parse a job from JSON lines. Raises `ConfigurationError` with the faulty line of `source`."""
    past: Past | None = None
    agent: PastAgent | None = None
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            match record["t"]:
                case "swarm-export" if record["v"] == VERSION and past is None:
                    past = Past(_checked("job", record["job"]), {}, redacted=record.get("redacted", ""))
                case "swarm-export":
                    raise ConfigurationError(
                        f"{source} has version {record['v']}; this release reads version {VERSION}"
                    )
                case "end" if record["records"] == number - 1 and past is not None and past.fields:
                    return past
                case kind:
                    agent = _take(kind, record, past, agent)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{source}, line {number}: not a record of an exported job ({error})") from error
    raise ConfigurationError(f"{source} is incomplete after line {number}; export the job again")


def _checked(kind: str, id: str) -> str:
    """Validate an id, because folders are named by it; a forged one could reach other files on the host."""
    if not re.fullmatch(rf"{kind}-[0-9a-f]{{1,16}}", id):
        raise ValueError(f"{id!r} is not a valid {kind} id")
    return id


def _take(kind: str, record: dict[str, Any], past: Past | None, agent: PastAgent | None) -> PastAgent | None:
    if past is None:
        raise ValueError("the header is missing")
    match kind:
        case "job":
            past.fields = dict(record["fields"])
        case "document":
            past.documents[record["digest"]] = record["text"]
        case "agent":
            agent = PastAgent(_checked("agent", record["id"]), dict(record["fields"]))
            past.agents[agent.id] = agent
        case "event":
            past.events.append((record["id"], dict(record["fields"])))
        case "entry" if agent is not None:
            agent.entries.append(PastEntry(record["n"], record["seq"], dict(record["e"])))
        case "mail" if agent is not None:
            agent.mail.append((record["id"], dict(record["fields"])))
        case "output" if agent is not None:
            agent.outputs[record["key"]] = record["text"]
        case _:
            raise ValueError(f"{kind!r} is unknown, or in the wrong place")
    return agent
