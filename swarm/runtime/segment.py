"""A segment: the part of an agent's life that one delivery of its task runs; what it carries, and how it can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from swarm.agent.journaled import Condition
from swarm.agent.life import Life
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import PermissionMode
from swarm.errors import UnreadableRecord
from swarm.permissions.ceiling import Ceiling, read_ceiling
from swarm.permissions.rules import Rule, Rules
from swarm.runtime.journal import Journal
from swarm.runtime.stop import Stop
from swarm.settings import Settings
from swarm.store.agents import Store
from swarm.store.values import Claim, JobPermissions, Signals

_FIRST_ENTRIES = 2
"""`started` and the task."""
RecordT = TypeVar("RecordT", bound=BaseModel)


@dataclass(frozen=True)
class Segment:
    """What everything that acts for the agent works with."""

    claim: Claim
    store: Store
    journal: Journal
    settings: Settings
    publish: Callable[[Signals | None], None]
    """Carries out what a step of the store asks for: wakes, stops."""
    stop: Stop

    def __post_init__(self) -> None:
        self.journal.publish = self.publish

    @cached_property
    def ceiling(self) -> Ceiling:
        """The most that this worker allows."""
        return read_ceiling(self.settings)

    @cached_property
    def spec(self) -> AgentSpec:
        """What the agent was started with, as far as this worker allows it; its folder is `Loop`'s to refuse."""
        spec, ceiling = self.claim.spec, self.ceiling
        after = None if spec.after_plan is None else ceiling.bound_mode(spec.after_plan)
        network = spec.network and ceiling.network
        mode, folders = ceiling.bound_mode(spec.mode), ceiling.bound_folders(spec.folders)
        return spec.model_copy(update={"mode": mode, "after_plan": after, "network": network, "folders": folders})

    @property
    def mode(self) -> PermissionMode:
        """The permission mode in force on this worker."""
        return self.ceiling.bound_mode(self.life.mode)

    @property
    def life(self) -> Life:
        """What the journal tells so far."""
        return self.journal.life

    @cached_property
    def rules(self) -> Rules:
        """The permission rules in force: the job's, those that approvals have added, the definition's. Raises `UnreadableRecord`."""
        of_job, what = self._permissions, f"the rules of {self.spec.job_id}"
        rules = read_record(Rules, of_job.rules, what) if of_job.rules else Rules()
        return rules + Rules(rules=tuple(read_record(Rule, rule, what) for rule in of_job.added)) + self.spec.rules

    @property
    def ask_seconds(self) -> float:
        """For how long the job's person can answer a question; 0: nobody is there."""
        return self._permissions.ask_seconds

    @cached_property
    def _permissions(self) -> JobPermissions:
        # What came with the claim is as good as read now while the agent has done nothing yet.
        if self.claim.permissions is not None and self.life.length <= _FIRST_ENTRIES:
            return self.claim.permissions
        return self.store.permissions(self.spec.job_id)


def read_record(kind: type[RecordT], document: str, what: str) -> RecordT:
    """What was stored with the job. Raises `UnreadableRecord` if a newer version wrote it."""
    try:
        return kind.model_validate_json(document)
    except ValidationError as error:
        raise UnreadableRecord(f"{what} cannot be read by this version: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class Ended:
    """The agent is over."""

    state: str
    summary: str


@dataclass(frozen=True)
class Waits:
    """The agent is parked, holding no process."""

    condition: Condition


@dataclass(frozen=True)
class HandedOver:
    """The agent is back on the queue, runnable."""

    why: str


@dataclass(frozen=True)
class Unserved:
    """The agent is back on the queue as it was: this worker cannot have the model `model` (`*`: any), and says why."""

    model: str
    why: str


@dataclass(frozen=True)
class GaveUp:
    """The agent is no longer ours: it was cancelled, or another worker claimed it."""

    why: str
    cancelled: bool = False


Outcome = Ended | Waits | HandedOver | Unserved | GaveUp
