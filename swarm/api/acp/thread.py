"""A job as the thread of one editor: the live model and the journals become updates of sessions.

An editor that knows child sessions gets one for each agent below the first. For others there is one thread, in which the lines of the
other agents begin with their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from swarm.agent.entries import decode_entry
from swarm.agent.items import Item, Passage
from swarm.api.acp.questions import PlacedQuestion
from swarm.api.acp.updates import Update, say, tell_usage, text_of
from swarm.api.acp.voice import AgentVoice, list_messages
from swarm.client.swarm import Swarm
from swarm.core.ids import question_id
from swarm.core.records import Event, read_event
from swarm.mailbox import USER
from swarm.models.catalogue import context_tokens
from swarm.store.journals import StoredEntry, read_stored
from swarm.store.questions import Question
from swarm.store.streams import Entries, Name
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.rows import Row
from swarm.streaming.live.state import LiveSnapshot, fold

MOST_FOLLOWED = 48
"""Agents whose journals and words are read as they grow; those of others are read at their events."""
MOST_REPLAYED = 200
"""Agents whose past an editor gets when it loads a job: the first agent and the oldest others."""

_PAGE = 500
"""Entries of one stream that one look reads."""
Told = tuple[str, Update]
"""A session and its update."""
Found = Mapping[Name, Entries]


class _SortedEntry(NamedTuple):
    """An entry of an agent's journal, sorted by its number in the job."""

    seq: int
    agent_id: str
    stored: StoredEntry


@dataclass
class Look:
    """The news of one look at a job."""

    told: list[Told] = field(default_factory=list)
    events: Sequence[Event] = ()
    has_ended: bool = False


class JobThread:
    """A job for one editor. Not thread-safe; its methods read from Redis."""

    def __init__(self, swarm: Swarm, job_id: str, session_id: str, *, nested: bool) -> None:
        self.job_id, self.session_id, self.nested = job_id, session_id, nested
        self._swarm, self._reader = swarm, LiveReader(swarm.store)
        self._now: LiveSnapshot | None = None
        self._voices: dict[str, AgentVoice] = {}
        self._words: dict[str, str] = {}
        """Cursors of the agents' words."""
        self._states: dict[str, dict[str, Any]] = {}
        """The last reported state of each child session."""
        self._asking: set[str] = set()
        """The agents with open questions at the last look."""
        self.own: set[str] = set()
        """Ids of messages that came from this editor."""
        self._since = 0.0
        """Entries before this time are read, but not told."""
        self._title = ""
        self._last_reply: Item | None = None
        """The first agent's last reply."""
        self._usage: Update = {}

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> LiveSnapshot:
        """The job at the last look."""
        assert self._now is not None, "it was not opened"
        return self._now

    @property
    def questions(self) -> list[Question]:
        """The open questions to the person."""
        return [question for question in self.now.questions if not question.to]

    @property
    def root_id(self) -> str:
        """The job's first agent."""
        return str(self.now.job["root_id"])

    def session_of(self, agent_id: str) -> str:
        """Return the session that shows the agent."""
        return agent_id if self.nested and agent_id != self.root_id and agent_id in self._voices else self.session_id

    def place_question(self, question: Question) -> PlacedQuestion:
        """Return a question with its place in the thread."""
        session, voice = self.session_of(question.agent_id), self._voices.get(question.agent_id)
        prefix = "" if self.nested or question.agent_id == self.root_id else f"[{question.label}] "
        calls = [] if voice is None else list(voice.calls.values())
        found = next((call for call in calls if question_id(question.agent_id, call.call) == question.id), None)
        if voice is None or found is None:
            return PlacedQuestion(question, session, question.id, None, prefix, str)
        return PlacedQuestion(question, session, voice.call_id(found.call), found, prefix, voice.place)

    def at_work(self) -> list[str]:
        """The agents whose model may be writing now."""
        return [agent_id for agent_id in self._followed() if self.now.agents[agent_id]["state"] == "running"]

    def streams(self) -> dict[Name, str]:
        """Return the streams to wait for, each with the cursor of the last known entry."""
        names: dict[Name, str] = {("events", self.job_id): self.now.events}
        for agent_id in self._followed():
            names["journal", agent_id] = f"{self._voices[agent_id].read}-0"
            if self.now.agents[agent_id]["state"] == "running":
                names["live", agent_id] = self._words.get(agent_id, "0-0")
        return names

    def _followed(self) -> list[str]:
        going = [agent_id for agent_id, row in self.now.agents.items() if not row["ended"] and agent_id in self._voices]
        return going if len(going) <= MOST_FOLLOWED else [going[0], *going[1 - MOST_FOLLOWED :]]

    # -- looks -----------------------------------------------------------------------------------------------------

    def open(self, *, since: float) -> list[Told]:
        """Read the job's current state, and tell its entries from that time on (Unix seconds). Raises `UnknownAgent`."""
        self._now, self._since = self._reader.snapshot(self.job_id), since
        told = self._announce(self.now.agents)
        wanted = [
            agent_id
            for agent_id, row in self.now.agents.items()
            if not row["ended"] or (row["ended_at"] or 0.0) >= since
        ][:MOST_REPLAYED]
        told += self._tell_entries(entry for agent_id in wanted for entry in self._read_on(agent_id))
        # Not those that were read: a journal that was empty a moment ago is told as it grows.
        rest = [self._voices[agent_id] for agent_id in self._voices.keys() - wanted]
        lengths = self._swarm.store.journals.lengths([voice.agent_id for voice in rest])
        for voice, length in zip(rest, lengths, strict=True):
            voice.read = length
        self._since = 0.0
        return [*told, *self._tell_states(self.now.agents), *self._tell_title(), *self._tell_usage()]

    def take(self, found: Found) -> Look:
        """Tell the new entries of streams."""
        events = [read_event(entry_id, fields) for entry_id, fields in found.get(("events", self.job_id), ())]
        came = {name[1]: entries for name, entries in found.items() if name[0] == "journal"}
        pieces = {name[1]: entries for name, entries in found.items() if name[0] == "live"}
        self._words |= {agent_id: entries[-1][0] for agent_id, entries in pieces.items()}
        read = [
            _SortedEntry(stored.seq, agent_id, stored)
            for agent_id, entries in came.items()
            for stored in (read_stored(entry_id, fields) for entry_id, fields in entries)
        ]
        # One look reads only the first entries of a stream.
        more = {
            agent_id: read_stored(*entries[-1]).number for agent_id, entries in came.items() if len(entries) >= _PAGE
        }
        told: list[Told] = []
        if events:
            before = set(self._followed())
            patch = self._reader.patch(self.job_id, self.now, events)
            self._now = fold(self.now, patch)
            told += self._announce(patch.agents)
            later = set(self._followed())
            more |= {agent_id: 0 for agent_id in patch.agents if agent_id not in before and agent_id not in later}
        read += [entry for agent_id, after in more.items() for entry in self._read_on(agent_id, after)]
        told += [*self._tell_entries(read, pieces), *self._tell_messages(events)]
        if events:
            # The job's row is as new as the last event.
            told += [*self._tell_states(patch.agents), *self._tell_title(), *self._tell_usage()]
        return Look(told, events, any(event.kind == "job_ended" for event in events) and self.has_ended)

    @property
    def has_ended(self) -> bool:
        """Whether the job had ended at the last look."""
        return bool(self.now.job["ended_at"])

    def _read_on(self, agent_id: str, after: int = 0) -> Iterable[_SortedEntry]:
        """Read the rest of an agent's journal."""
        voice = self._voices.get(agent_id)
        after = max(after, voice.read if voice else 0)
        while page := self._swarm.store.journals.stored(agent_id, after=after):
            for stored in page:
                yield _SortedEntry(stored.seq, agent_id, stored)
            after = page[-1].number

    # -- updates ---------------------------------------------------------------------------------------------------

    def _announce(self, rows: Mapping[str, Row]) -> list[Told]:
        """Make the voices of new agents, and tell of their sessions, parents first."""
        told: list[Told] = []
        folder = str(self.now.job["workspace"])
        for agent_id, row in sorted(rows.items(), key=lambda found: found[1]["depth"]):
            if agent_id in self._voices:
                continue
            if agent_id == self.root_id or self.nested:
                self._voices[agent_id] = AgentVoice(agent_id, folder)
            else:
                self._voices[agent_id] = AgentVoice(agent_id, folder, prefix=f"[{row['label']}] ", marks_calls=True)
            if self.nested and agent_id != self.root_id:
                about = {
                    "title": row["label"],
                    "description": ", ".join(filter(None, (row["definition"], row["model"]))),
                }
                announced = {"sessionUpdate": "subagent_update", "sessionId": agent_id, **about}
                told.append((self.session_of(row["parent_id"]), {**announced, "capabilities": {"cancel": {}}}))
        return told

    def _tell_states(self, rows: Mapping[str, Row]) -> list[Told]:
        """Tell the states of child sessions that these rows or the questions have changed."""
        if not self.nested:
            return []
        asking = {question.agent_id for question in self.questions}
        others, self._asking = asking ^ self._asking, asking
        told: list[Told] = []
        for agent_id in [*rows, *(one for one in others if one not in rows and one in self.now.agents)]:
            row = self.now.agents[agent_id]
            state = _state_of(row, asks=agent_id in asking)
            if agent_id != self.root_id and self._states.get(agent_id) != state:
                self._states[agent_id] = state
                changed = {"sessionUpdate": "subagent_update", "sessionId": agent_id, "state": state}
                told.append((self.session_of(row["parent_id"]), changed))
        return told

    def _tell_title(self) -> list[Told]:
        title = str(self.now.job["title"])
        if title == self._title:
            return []
        self._title = title
        return [(self.session_id, {"sessionUpdate": "session_info_update", "title": title})]

    def _tell_entries(self, entries: Iterable[_SortedEntry], pieces: Mapping[str, Entries] | None = None) -> list[Told]:
        """Tell entries in the job's order, each after the words that it ends, then the words of unfinished replies."""
        told: list[Told] = []
        waiting = {agent_id: [fields for _, fields in came] for agent_id, came in (pieces or {}).items()}
        for _, agent_id, stored in sorted(entries, key=lambda entry: (entry.seq, entry.stored.number)):
            voice = self._voices.get(agent_id)
            if voice is None or stored.number <= voice.read:
                continue
            before = [piece for piece in waiting.get(agent_id, ()) if int(piece["entry"]) <= stored.number]
            waiting[agent_id] = waiting.get(agent_id, [])[len(before) :]
            told += self._speak(voice, before)
            told += self._tell_entry(voice, stored)
        for agent_id, left in waiting.items():
            if (voice := self._voices.get(agent_id)) is not None:
                told += self._speak(voice, left)
        return told

    def _speak(self, voice: AgentVoice, pieces: Iterable[Mapping[str, str]]) -> list[Told]:
        session = self.session_of(voice.agent_id)
        return [(session, update) for piece in pieces for update in voice.speak(piece)]

    def _tell_entry(self, voice: AgentVoice, stored: StoredEntry) -> list[Told]:
        session, agent_id = self.session_of(voice.agent_id), voice.agent_id
        entry = decode_entry(stored.document, agent_id=agent_id, number=stored.number)
        item, updates = voice.tell(stored.number, entry)
        if item.kind == "reply" and agent_id == self.root_id and "usage" in item.facts:
            self._last_reply = item
        if entry.at < self._since:
            return []
        told = [(session, update) for update in updates]
        if item.kind == "prompt" and item.facts["purpose"] == "task":
            told += self._tell_task(agent_id, stored.number, voice.read_task(item.facts["text"]))
        for message_id, passage in list_messages(item):
            told += self._tell_mail(agent_id, message_id, passage)
        return told

    def _tell_task(self, agent_id: str, number: int, text: str) -> list[Told]:
        message_id = f"{agent_id}:{number}"
        if agent_id == self.root_id:
            return [] if self.job_id in self.own else [(self.session_id, say("user", text, message_id))]
        if not self.nested:
            return []
        parent = self.session_of(self.now.agents[agent_id]["parent_id"])
        return [(agent_id, _carry(message_id, parent, agent_id, text))]

    def _tell_mail(self, agent_id: str, message_id: str, passage: Passage) -> list[Told]:
        """Tell a message that an agent has taken in."""
        session = self.session_of(agent_id)
        if not passage.agent and passage.title.startswith(f"message from {USER}"):
            if message_id in self.own:
                return []
            return [(session, say("user", passage.text, f"{agent_id}:mail:{message_id}"))]
        if self.nested and passage.agent in self._voices:
            sender = self.session_of(passage.agent)
            return [(session, _carry(f"{agent_id}:mail:{message_id}", sender, session, passage.text))]
        return []

    def _tell_messages(self, events: Sequence[Event]) -> list[Told]:
        """Tell the messages of agents to the person."""
        return [
            (self.session_id, say("agent", f"[{message.sender_name}] {message.body}", f"inbox:{message.id}"))
            for message in self._reader.messages(events, self.job_id)
        ]

    def _tell_usage(self) -> list[Told]:
        """Tell the size of the first agent's conversation and the job's cost, if they have changed."""
        if self._last_reply is None:
            return []
        facts = self._last_reply.facts
        window = context_tokens(facts["model"], prices_file=self._swarm.settings.prices_file)
        usage = tell_usage(facts["usage"].total_tokens, window, self.now.job["cost_usd"])
        if usage == self._usage:
            return []
        self._usage = usage
        return [(self.session_id, usage)]


def _carry(message_id: str, sender: str, receiver: str, text: str) -> Update:
    return {
        "sessionUpdate": "session_message",
        "messageId": message_id,
        "senderSessionId": sender,
        "recipientSessionId": receiver,
        "content": [text_of(text)],
    }


def _state_of(row: Row, *, asks: bool) -> dict[str, Any]:
    """Return the state of a child session."""
    if asks:
        return {"state": "requires_action"}
    if row["ended"]:
        return {"state": "idle", "stopReason": "cancelled" if row["state"] == "cancelled" else "end_turn"}
    return {"state": "running"} if row["at_work"] else {"state": "idle"}
