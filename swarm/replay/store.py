"""Redis access for replay: records of a job's history, and the steps that import one."""

from __future__ import annotations

import json
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.store.keyspace import Keyspace
from swarm.store.values import Signals

_Entries = list[tuple[str, dict[str, str]]]


class PastStore:
    """The records of one job."""

    def __init__(self, keyspace: Keyspace, job_id: str) -> None:
        self._keyspace, self.job_id = keyspace, job_id

    def job(self) -> dict[str, str]:
        """Read all fields of the job."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("job", self.job_id)))

    def agent(self, agent_id: str) -> dict[str, str]:
        """Read all fields of an agent."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("agent", agent_id)))

    def stream(self, kind: str, owner: str) -> _Entries:
        """Read all entries of a mailbox, or of the job's events."""
        return list(self._keyspace.client.xrange(self._keyspace.key(kind, owner)))

    def import_past(self, what: str, request: dict[str, Any]) -> None:
        """Write a part of the job. Raises `ConfigurationError` if there is a job with this id."""
        self._step("import_past", what, json.dumps(request, ensure_ascii=False))

    def plant_job(self, request: dict[str, Any]) -> Signals:
        """Write the job's record, after all other parts. Raises as `import_past`."""
        return Signals(publish=self._step("plant_job", json.dumps(request))[1])

    def _step(self, name: str, *arguments: str) -> list[Any]:
        answer: list[Any] = self._keyspace.run(name, self.job_id, *arguments)
        if answer[0] == "exists":
            raise ConfigurationError(
                f"the job {self.job_id}, or one with its agents, exists already; `swarm tree {self.job_id}` shows it"
            )
        return answer
