"""What agents have left of files, as their journals and records name it."""

from __future__ import annotations

import json

from pydantic import ValidationError

from swarm.agent.entries import Entry, decode_entry
from swarm.agent.spec import AgentSpec
from swarm.errors import UnknownAgent, UnreadableRecord
from swarm.store.upkeep import Upkeep

_PAGE = 500


class Works(Upkeep):
    """The part of a store that tells of agents' work; it changes nothing."""

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
        try:
            return AgentSpec.model_validate_json(document)
        except ValidationError as error:
            raise UnreadableRecord(f"{agent_id} was made by a newer version: {str(error).splitlines()[0]}") from error
