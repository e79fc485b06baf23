"""Patches for a tab: its watched parts, its cursors, and the changes since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from swarm.client.swarm import Swarm
from swarm.core.errors import UnknownAgent
from swarm.core.records import read_event
from swarm.mailbox import to_message
from swarm.store.store import Store
from swarm.store.streams import FEED, Name
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.rows import Row
from swarm.streaming.live.state import Patch
from swarm.web.entries import show_message
from swarm.web.reads import MOST_JOBS, show_jobs, show_patch
from swarm.web.transcripts import MOST_ENTRIES, read_journal

Found = Mapping[str, Sequence[tuple[str, Mapping[str, str]]]]
"""Letter of a cursor → new entries of its stream."""
_LOOKED_AT_JOBS = 50
_CURSOR = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")


def is_cursor(text: str) -> bool:
    """Whether the text is a cursor of a stream."""
    return _CURSOR.fullmatch(text) is not None


@dataclass(frozen=True)
class WatchedParts:
    """The parts that a tab shows."""

    jobs: bool = False
    job_id: str | None = None
    agent_id: str | None = None
    words: bool = False


@dataclass
class Cursors:
    """A tab's positions in its streams; empty: from now on."""

    feed: str = ""
    events: str = ""
    journal: str = ""
    """The number of the last entry."""
    mail: str = ""

    @classmethod
    def read(cls, text: str) -> Cursors:
        """Parse the cursors that `text` wrote; unreadable ones are ignored."""
        names = {each.name[0]: each.name for each in fields(cls)}
        pairs = (part.partition("=") for part in text.split(","))
        return cls(**{names[outgoing]: value for outgoing, _, value in pairs if outgoing in names and is_cursor(value)})

    def text(self) -> str:
        """Return all cursors as the id of an event."""
        return ",".join(f"{name[0]}={value}" for name, value in vars(self).items() if value)

    def shown(self) -> dict[str, Any]:
        """Return all cursors as JSON."""
        return {name: int(value) if name == "journal" else value for name, value in vars(self).items() if value}


@dataclass
class Viewed:
    """A tab's watched parts, its cursors, and the rows that it received last."""

    wanted: WatchedParts
    cursors: Cursors
    words: str = "0-0"
    turns: int | None = None
    """Number of replies in the journal up to its cursor, if known."""
    busy: bool = True
    """Whether anything may change without an event."""
    rows: dict[str, Row] = field(default_factory=dict)
    jobs: dict[str, Row] = field(default_factory=dict)
    full: str = ""
    """Why nothing new starts, as the tab knows it."""
    job: Row | None = None
    gone: set[str] = field(default_factory=set)

    def streams(self) -> dict[str, tuple[Name, str]]:
        """Return letter → name and cursor of each stream to read."""
        wanted, cursors = self.wanted, self.cursors
        streams: dict[str, tuple[Name, str]] = {}
        if wanted.jobs:
            streams["f"] = (FEED, cursors.feed)
        if wanted.job_id and "job" not in self.gone:
            streams["e"] = (("events", wanted.job_id), cursors.events)
        if wanted.agent_id and "agent" not in self.gone:
            streams["j"] = (("journal", wanted.agent_id), f"{cursors.journal}-0")
            streams["m"] = (("mail", wanted.agent_id), cursors.mail)
            if wanted.words:
                streams["w"] = (("live", wanted.agent_id), self.words)
        return streams


def find_losses(swarm: Swarm, viewed: Viewed) -> dict[str, list[str]]:
    """Find a tab's parts that have expired (`gone`), or that it must read again (`reset`) because entries after its cursors are lost.

    Sets the cursors of lost parts, and empty cursors, to now."""
    gone = _find_gone(swarm.store, viewed)
    viewed.gone |= set(gone)
    reset = _forget_lost(swarm.store, viewed)
    _take_ends(swarm, viewed)
    return {"gone": gone, "reset": reset}


def _find_gone(store: Store, viewed: Viewed) -> list[str]:
    parts = (("job", viewed.wanted.job_id, store.jobs.exists), ("agent", viewed.wanted.agent_id, store.agents.exists))
    return [what for what, one, exists in parts if one and what not in viewed.gone and not exists(one)]


def _forget_lost(store: Store, viewed: Viewed) -> list[str]:
    """Empty the cursors whose streams cannot be continued, and return the parts that they are of."""
    wanted, cursors = viewed.wanted, viewed.cursors
    reset: list[str] = []
    if wanted.jobs and store.streams.is_lost(FEED, cursors.feed):
        reset.append("jobs")
        cursors.feed = ""
    if wanted.job_id and "job" not in viewed.gone and store.streams.is_lost(("events", wanted.job_id), cursors.events):
        reset.append("job")
        cursors.events = ""
    if wanted.agent_id and "agent" not in viewed.gone and cursors.journal:
        length = store.journals.lengths([wanted.agent_id])[0]
        if length < int(cursors.journal) or store.streams.is_behind(("mail", wanted.agent_id), cursors.mail):
            reset.append("agent")
            cursors.journal = cursors.mail = ""
            viewed.turns = None
    return reset


def _take_ends(swarm: Swarm, viewed: Viewed) -> None:
    store, wanted, cursors = swarm.store, viewed.wanted, viewed.cursors
    if wanted.jobs:
        cursors.feed = cursors.feed or store.streams.last(FEED)
    if wanted.job_id:
        cursors.events = cursors.events or store.streams.last(("events", wanted.job_id))
    if wanted.agent_id:
        cursors.mail = cursors.mail or store.streams.last(("mail", wanted.agent_id))
        cursors.journal = cursors.journal or store.streams.last(("journal", wanted.agent_id)).split("-")[0]


def make_patch(swarm: Swarm, viewed: Viewed, found: Found, *, look: bool) -> dict[str, Any]:
    """Make a tab's patch and advance its cursors; empty without changes. `look`: also read facts that change without an event."""
    patch: dict[str, Any] = {}
    if viewed.wanted.jobs:
        patch |= _patch_jobs(swarm, viewed, found.get("f", ()), look=look)
    if viewed.wanted.job_id and "job" not in viewed.gone:
        patch |= _patch_job(swarm, viewed, found.get("e", ()), look=look)
    if viewed.wanted.agent_id and "agent" not in viewed.gone:
        patch |= _patch_agent(swarm, viewed, found)
    if not patch:
        return {}
    # A job's patch includes the time.
    return {"now": patch.get("now") or swarm.store.now(), "at": viewed.cursors.shown(), **patch}


def _patch_jobs(
    swarm: Swarm, viewed: Viewed, came: Sequence[tuple[str, Mapping[str, str]]], *, look: bool
) -> dict[str, Any]:
    if came:
        viewed.cursors.feed = came[-1][0]
    ids = list(dict.fromkeys(fields["job"] for _, fields in came))
    if look:
        ids = list(dict.fromkeys([*ids, *swarm.store.jobs.part(_LOOKED_AT_JOBS)[0]]))
    before, viewed.full = viewed.full, swarm.store.fleet.full() if look else viewed.full
    fleet = {} if viewed.full == before else {"full": viewed.full}
    if not ids:
        return fleet
    rows = LiveReader(swarm.store).jobs(ids[:MOST_JOBS])
    changed = {job_id: row for job_id, row in rows.items() if viewed.jobs.get(job_id) != row}
    first, viewed.jobs = not viewed.jobs and not came, {**viewed.jobs, **rows}
    # A tab's snapshot has these rows already.
    return {**fleet, **show_jobs(swarm, changed)} if changed and not first else fleet


def _patch_job(
    swarm: Swarm, viewed: Viewed, came: Sequence[tuple[str, Mapping[str, str]]], *, look: bool
) -> dict[str, Any]:
    job_id, reader = viewed.wanted.job_id or "", LiveReader(swarm.store)
    events = [read_event(entry_id, fields) for entry_id, fields in came]
    if not events and not look:
        return {}
    try:
        patch = reader.patch(job_id, Patch(viewed.cursors.events, 0), events, at_work=look)
    except UnknownAgent:
        # `find_losses` reports it.
        return {}
    viewed.cursors.events = patch.events
    job = patch.job or {}
    viewed.busy = bool(job.get("running") or job.get("queued"))
    agents = {agent_id: row for agent_id, row in patch.agents.items() if viewed.rows.get(agent_id) != row}
    viewed.rows |= agents
    if not events and not agents and viewed.job == patch.job:
        return {}
    viewed.job = patch.job
    shown = {"now": patch.at, **show_patch(replace(patch, agents=agents))}
    if inbox := [show_message(message) for message in reader.messages(events, job_id)]:
        shown["inbox"] = inbox
    return shown


def _patch_agent(swarm: Swarm, viewed: Viewed, found: Found) -> dict[str, Any]:
    agent_id, cursors, shown = viewed.wanted.agent_id or "", viewed.cursors, {}
    if found.get("j"):
        page = read_journal(swarm, agent_id, after=int(cursors.journal), count=MOST_ENTRIES, turns=viewed.turns)
        if page["entries"]:
            cursors.journal, shown["entries"] = str(page["last"]), page["entries"]
            replies = sum(entry["kind"] == "reply" for entry in page["entries"])
            viewed.turns = None if page["turns_before"] is None else page["turns_before"] + replies
    if came := found.get("m"):
        cursors.mail = came[-1][0]
        shown["mail"] = [show_message(to_message(entry_id, dict(fields))) for entry_id, fields in came]
    if came := found.get("w"):
        viewed.words = came[-1][0]
        words = [_show_words(fields) for _, fields in came if int(fields["entry"]) > int(cursors.journal)]
        if words:
            shown["words"] = words
    return shown


def _show_words(fields: Mapping[str, str]) -> dict[str, Any]:
    numbers = {name: int(fields[name]) for name in ("entry", "block", "from")}
    return {**numbers, "type": fields["type"], "name": fields.get("name", ""), "text": fields["text"]}
