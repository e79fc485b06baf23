"""Records of a job's pushes to its repository's server. Only the owner of the root's claim writes them."""

from __future__ import annotations

import secrets
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError
from swarm.store.keyspace import Keyspace, check_claim, effect_of, no_job
from swarm.store.prefixes import digest_of
from swarm.store.values import Claim, Signals


class Pushed(BaseModel):
    """How far a job's work has got, for the workers that continue it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    commits: tuple[str, ...] = ()
    """The commits that were pushed, or that were about to be, oldest first: the branch can be at any of them."""
    snapshot: str = ""
    """The snapshot that the last pushed commit holds."""
    commit: str = ""
    """The last commit that the server surely has."""
    began: str = ""
    """The server's commit that the job began from."""
    number: int = 0
    """The pull request's number; 0: none is known."""
    since: float = 0.0
    """When the server became unreachable; 0: it answers."""


class Pushes:
    """The records of one job's pushes."""

    def __init__(self, keyspace: Keyspace, claim: Claim) -> None:
        self._keyspace, self._claim = keyspace, claim

    def read(self) -> Pushed:
        """How far the job's work has got."""
        found = self._keyspace.client.hget(self._keyspace.key("job", self._claim.spec.job_id), "pushed")
        return Pushed.model_validate_json(found) if found else Pushed()

    def note(self, pushed: Pushed, **fields: str) -> None:
        """Note it, with further fields of the job for people. Raises `NotOwner`, `AgentCancelled`."""
        values = [word for pair in {"pushed": pushed.model_dump_json(), **fields}.items() for word in pair]
        self._run("note_push", *values)

    def begin_from(self, spec: AgentSpec, instructions: str) -> None:
        """Set the commit that the root's workspace begins as. Raises `NotOwner`, `AgentCancelled`."""
        digest = digest_of(instructions) if instructions else ""
        self._run("begin_from", spec.model_dump_json(), digest, instructions)

    def wanted_review(self) -> str:
        """The id of a person's request for review comments; empty if there is none."""
        return self._keyspace.client.hget(self._keyspace.key("job", self._claim.spec.job_id), "review") or ""

    def deliver_review(self, request: str, text: str) -> Signals:
        """Deliver what a request asked for to the root, once. Raises `NotOwner`, `AgentCancelled`."""
        answer = self._keyspace.run("deliver_review", self._claim.agent_id, self._claim.generation, request, text)
        return effect_of(answer, self._claim)

    def _run(self, step: str, *arguments: Any) -> None:
        check_claim(self._keyspace.run(step, self._claim.agent_id, self._claim.generation, *arguments), self._claim)


def want_review(keyspace: Keyspace, job_id: str) -> None:
    """Ask for the review comments of a job's pull request. Raises `UnknownAgent`, `ConfigurationError`."""
    match keyspace.run("want_review", job_id, secrets.token_hex(8)):
        case ["unknown"]:
            raise no_job(job_id)
        case ["none"]:
            raise ConfigurationError(f"{job_id} has no pull request; `swarm run --repo REPO --pr` makes one")
