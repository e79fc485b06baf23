"""Looking at jobs and agents: their records as they stand, without changing any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm.core.errors import UnknownAgent
from swarm.core.records import AGENT_FIELDS, JOB_FIELDS, TERMINAL_STATES, AgentView, JobView, read_agent, read_job
from swarm.store.keyspace import Keyspace
from swarm.store.values import Hint, JobPermissions

_PAGE = 500
"""Records fetched at a time: others are served in between."""


@dataclass(frozen=True)
class StoredEntry:
    """An entry of a journal as it is stored."""

    number: int
    seq: int
    """Its place among all journal entries and events of the job."""
    document: str
    """JSON."""


@dataclass(frozen=True)
class JournalPage:
    """Some entries of a journal, and of the same moment how many there are and how many turns they make."""

    entries: list[StoredEntry]
    turns: int
    length: int


class Roster(Keyspace):
    """Who there is: the jobs of a swarm and their agents."""

    def job(self, job_id: str) -> JobView:
        """The job's record. Raises `UnknownAgent`."""
        [record] = self._fetch("job", [job_id], JOB_FIELDS)
        if record["state"] is None:
            raise UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
        return read_job(job_id, record)

    def jobs(self, count: int = 50) -> list[JobView]:
        """The newest jobs, newest first; expired ones are forgotten on the way."""
        found: list[JobView] = []
        job_ids = self.job_ids(count)
        for job_id, record in zip(job_ids, self._fetch("job", job_ids, JOB_FIELDS), strict=True):
            if record["state"] is None:
                self.client.zrem(self.key("jobs"), job_id)
            else:
                found.append(read_job(job_id, record))
        return found

    def job_ids(self, count: int = 0, before: str = "") -> list[str]:
        """The ids of the newest jobs, or of those made before one (none if that is not known any more), newest first, expired ones
        among them; 0: of all. Records of thousands would take seconds."""
        first = 0
        if before:
            rank = self.client.zrevrank(self.key("jobs"), before)
            if rank is None:
                return []
            first = int(rank) + 1
        return list(self.client.zrevrange(self.key("jobs"), first, first + count - 1 if count else -1))

    def permissions(self, job_id: str) -> JobPermissions:
        """What the job allows and forbids now."""
        pipeline = self.client.pipeline(transaction=False)
        pipeline.hmget(self.key("job", job_id), "rules", "ask_seconds")
        pipeline.lrange(self.key("job", job_id, "rules"), 0, -1)
        (rules, seconds), added = pipeline.execute()
        return JobPermissions(rules or "", list(added), float(seconds or 0))

    def catalogue(self, job_id: str) -> str:
        """The definitions that travelled with the job, as JSON. Raises `UnknownAgent` if there is no such job any more."""
        digest, own = self.client.hmget(self.key("job", job_id), "definitions", "catalogue")
        found = own or (self.document(digest) if digest else None)
        if found is None:
            raise UnknownAgent(f"job {job_id} has no definitions: its keys have been removed")
        return str(found)

    def document(self, digest: str) -> str | None:
        """The text of that digest, which jobs have in common."""
        found = self.client.get(self.key("document", digest))
        return None if found is None else str(found)

    def agent(self, agent_id: str) -> AgentView:
        """The agent's record. Raises `UnknownAgent`."""
        [record] = self.agents([agent_id])
        if record is None:
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        return record

    def agents(self, agent_ids: Sequence[str]) -> list[AgentView | None]:
        """The records of these agents, None for one that does not exist; one round trip."""
        found = self._fetch("agent", agent_ids, AGENT_FIELDS)
        return [
            None if record["state"] is None else read_agent(agent_id, record)
            for agent_id, record in zip(agent_ids, found, strict=True)
        ]

    def agents_of(self, job_id: str, *, answers: bool = True) -> list[AgentView]:
        """The job's agents, oldest first; without `answers` their texts and data, which may be long, are left out."""
        names = AGENT_FIELDS if answers else [name for name in AGENT_FIELDS if name not in ("text", "data")]
        agent_ids, found = self.agent_ids([job_id]), []
        for first in range(0, len(agent_ids), _PAGE):
            page = agent_ids[first : first + _PAGE]
            records = zip(page, self._fetch("agent", page, names), strict=True)
            found += [read_agent(agent_id, record) for agent_id, record in records if record["state"] is not None]
        return found

    def agent_ids(self, job_ids: Sequence[str]) -> list[str]:
        """The ids of all agents of these jobs, of each the oldest first."""
        pipeline = self.client.pipeline(transaction=False)
        for job_id in job_ids:
            pipeline.zrange(self.key("job", job_id, "agents"), 0, -1)
        return [agent_id for found in (pipeline.execute() if job_ids else []) for agent_id in found]

    def children(self, agent_id: str) -> set[str]:
        """The ids of the agents it started."""
        return set(self.client.smembers(self.key("children", agent_id)))

    def stored_entries(self, agent_id: str, *, after: int = 0, count: int = _PAGE) -> list[StoredEntry]:
        """The first entries of the agent's journal after that one, unread: also those that this version cannot read."""
        return self.journal_page(agent_id, after=after, count=count).entries

    def journal_page(
        self, agent_id: str, *, after: int | None = None, before: int | None = None, count: int = _PAGE
    ) -> JournalPage:
        """The first entries of the journal after one, or else the last before one, or of all. Raises `UnknownAgent`."""
        key, pipeline = self.key("journal", agent_id), self.client.pipeline(transaction=True)
        pipeline.hmget(self.key("agent", agent_id), "state", "turns", "length")
        if after is not None:
            pipeline.xrange(key, f"({after}-0" if after else "-", "+", count=count)
        else:
            pipeline.xrevrange(key, f"({before}-0" if before else "+", "-", count=count)
        (state, turns, length), found = pipeline.execute()
        if state is None:
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        entries = sorted((read_stored(*each) for each in found), key=lambda stored: stored.number)
        return JournalPage(entries, int(turns or 0), int(length or 0))

    def hints(self, agent_ids: Sequence[str]) -> list[Hint | None]:
        """What a wake-up says of each of these agents; None for one that does not exist. One round trip."""
        found: list[Hint | None] = []
        for answer in self.run("wakeup", *agent_ids) if agent_ids else ():
            state, job, parent, depth, generation, definition, label, needs, max_depth, files = answer
            if job is None or max_depth is None:
                found.append(None)
                continue
            about = (state, job, parent or None, int(depth), int(generation), definition, label, int(max_depth))
            found.append(Hint(*about, needs or "{}", files == "carried"))
        return found

    def ended(self, agent_ids: Sequence[str]) -> dict[str, AgentView]:
        """The records of those that have ended, as their parent asked them to; what they told others since is not in them."""
        found = {}
        names = (*AGENT_FIELDS, "earlier", "earlier_reason", "earlier_ended")
        for agent_id, fields in zip(agent_ids, self._fetch("agent", agent_ids, names), strict=True):
            if fields["earlier_ended"]:
                earlier = {
                    "text": fields["earlier"],
                    "reason": fields["earlier_reason"],
                    "ended": fields["earlier_ended"],
                    "run": None,
                }
                found[agent_id] = read_agent(agent_id, {**fields, **earlier, "state": "completed"})
            elif fields["state"] in TERMINAL_STATES:
                found[agent_id] = read_agent(agent_id, fields)
        return found

    def workers(self) -> dict[str, str]:
        """What each worker has that is there now, as JSON."""
        here = self.client.zrangebyscore(self.key("workers", "silent"), self.now(), "+inf")
        found = self.client.hmget(self.key("workers"), here) if here else []
        return {worker: has for worker, has in zip(here, found, strict=True) if has is not None}

    def busy(self) -> dict[str, int]:
        """How many agents each worker runs now."""
        leased = list(self.client.zrange(self.key("leases"), 0, -1))
        return dict(Counter(record.worker for record in self.agents(leased) if record is not None and record.worker))

    def held_by(self, worker: str) -> list[str]:
        """The agents a worker holds a lease on."""
        leased = list(self.client.zrange(self.key("leases"), 0, -1))
        return [record.id for record in self.agents(leased) if record is not None and record.worker == worker]

    def _fetch(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str | None]]:
        """Some fields of several hashes of a kind, in one round trip."""
        if not ids:
            return []
        pipeline = self.client.pipeline(transaction=False)
        for one in ids:
            pipeline.hmget(self.key(kind, one), names)
        return [dict(zip(names, values, strict=True)) for values in pipeline.execute()]


def read_stored(entry_id: str, fields: Mapping[str, str]) -> StoredEntry:
    """An entry of a journal's stream."""
    return StoredEntry(int(entry_id.split("-")[0]), int(fields.get("seq", 0)), fields["e"])
