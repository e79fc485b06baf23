"""The directory of a job: possible receivers and their names.

A name is unique in its job, can be used at once, and is never given to another agent; agents of other jobs are unreachable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from swarm.core.errors import UnknownReceiver
from swarm.core.records import AgentView, read_agent
from swarm.mailbox import USER, Receiver
from swarm.store.keyspace import Keyspace

_ID = re.compile(r"(agent|job)-[0-9a-f]{16}")
_FIELDS = ("state", "job", "parent", "name", "teammate")
_SHOWN = 40


class Directory:
    """Looks receivers up in one job."""

    def __init__(self, keyspace: Keyspace, job_id: str) -> None:
        self._keyspace, self._job_id = keyspace, job_id

    def find(self, to: str, sender_id: str) -> list[Receiver]:
        """The receivers of `to` for `sender_id`: a name, an id, `parent`, `user`, or `*`.

        `*` is the sender's team if it has one, else all live agents of the job; never the sender itself. Raises
        `UnknownReceiver`, which lists the receivers.
        """
        # Half a surrogate pair has no UTF-8 form, so no agent can have it as a name.
        to = to.encode("utf-8", "replace").decode().strip()
        if to == "*":
            return self._find_all(sender_id)
        if to in ("parent", "lead"):
            sender = self._agent(sender_id)
            to = (sender and sender.parent_id) or USER
        if to in (USER, self._job_id):
            if sender_id == self._job_id:
                raise UnknownReceiver("that is yourself: a message needs another receiver")
            return [Receiver(self._job_id, USER, "")]
        # An agent that continues another job's agent also answers to its former id.
        agent_id = self._keyspace.client.hget(self._keyspace.key("job", self._job_id, "names"), to) or (
            to if _ID.fullmatch(to) else None
        )
        agent = self._agent(agent_id) if agent_id else None
        if agent is None:
            raise UnknownReceiver(f"there is no agent {to[:80]!r} in this job; there are: {self._who_is_there()}")
        if agent.id == sender_id:
            raise UnknownReceiver("that is yourself: a message needs another receiver")
        return [_receiver(agent)]

    def find_agent(self, who: str, asker_id: str) -> Receiver:
        """The one other agent of the job that `who` names. Raises `UnknownReceiver`."""
        if who.strip() == "*":
            raise UnknownReceiver("`*` is no single agent: give a name or an id")
        [found] = self.find(who, asker_id)
        if found.id == self._job_id:
            raise UnknownReceiver("the person is no agent")
        return found

    def _find_all(self, sender_id: str) -> list[Receiver]:
        agents = self._agents()
        own = next((agent for agent in agents if agent.id == sender_id), None)
        lead = own.parent_id if own and own.teammate else sender_id
        team = [agent for agent in agents if agent.id == lead or (agent.parent_id == lead and agent.teammate)]
        chosen = team if len(team) > 1 else agents
        found = [_receiver(agent) for agent in chosen if agent.id != sender_id and not agent.ended]
        if not found:
            raise UnknownReceiver("no other agent of this job is alive")
        return found

    def _agents(self) -> list[AgentView]:
        return self._records(self._keyspace.client.zrange(self._keyspace.key("job", self._job_id, "agents"), 0, -1))

    def _agent(self, agent_id: str) -> AgentView | None:
        return next(iter(self._records([agent_id])), None)

    def _records(self, ids: Sequence[str]) -> list[AgentView]:
        """The records of these agents that belong to this job, with the fields used here."""
        records = zip(ids, self._keyspace.fetch("agent", ids, _FIELDS), strict=True)
        return [read_agent(agent_id, record) for agent_id, record in records if record["job"] == self._job_id]

    def _who_is_there(self) -> str:
        there = [f"{agent.called} ({agent.state})" for agent in self._agents() if agent.state != "cancelled"]
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        return ", ".join(there[:_SHOWN]) + more


def _receiver(agent: AgentView) -> Receiver:
    return Receiver(agent.id, agent.called, agent.state)
