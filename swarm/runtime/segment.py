"""A segment: the part of an agent's life that one delivery of its task runs; what it carries, and how it can end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from swarm.agent.history import History
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.errors import Interrupted
from swarm.core.log import EventLog
from swarm.core.settings import Settings
from swarm.definitions.model import PermissionMode
from swarm.models import Model
from swarm.permissions.ceiling import Ceiling, read_ceiling
from swarm.permissions.judge import may_read
from swarm.permissions.modes import MODES
from swarm.permissions.rules import Rule, Rules
from swarm.runtime.journal import Journal
from swarm.runtime.share import Share
from swarm.store.documents import RecordT, read_once, read_record
from swarm.store.durable import Disk
from swarm.store.store import Store
from swarm.store.values import Claim, JobPermissions, Signals

log = EventLog("swarm.segment")
_FIRST_ENTRIES = 2
"""`started` and the task."""


@dataclass
class Stop:
    """How a running segment learns that it must stop where it is."""

    agent_id: str
    requested: bool = False
    event: threading.Event = field(default_factory=threading.Event)
    """Set by other threads only: a signal may come while its lock is held."""
    _waiting: bool = False

    def check(self) -> None:
        """Raise `Interrupted` once the agent must stop."""
        if self.requested:
            raise Interrupted(f"agent {self.agent_id} was told to stop")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A stretch that a stop signal may tear apart. Anywhere else it might leave a lock held, and hang the process for ever."""
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """A stretch within `waiting` that stays whole."""
        before, self._waiting = self._waiting, False
        try:
            yield
        finally:
            self._waiting = before
        self.check()

    def on_signal(self) -> None:
        """Called by the signal's handler, on the thread that runs the agent."""
        self.requested = True
        if self._waiting:
            # Once is enough: a second signal must not interrupt the first one's way out.
            self._waiting = False
            self.check()


@dataclass(frozen=True)
class Segment:
    """What everything that acts for the agent works with."""

    claim: Claim
    store: Store
    settings: Settings
    publish: Callable[[Signals | None], None]
    """Carries out what a step of the store asks for: wakes, stops."""
    stop: Stop
    model: Model
    disk: Disk | None = None

    @cached_property
    def journal(self) -> Journal:
        """The agent's journal."""
        # Batches have limits of their own.
        limit_class = "" if self.claim.spec.batch else self.model.limit_class(self.claim.spec.model)
        share = Share(self.claim, limit_class, self.settings.prices_file)
        return Journal(self.claim, self.store, self.publish, share, self.disk)

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

    def keep_below_ceiling(self) -> str:
        """Why the agent may not work in its folder here, if it may not; people are told once what another one loses here."""
        host, ceiling, wanted = socket.gethostname(), self.ceiling, self.claim.spec
        # A copy lies where this worker says, which is checked when it is entered.
        is_copy = self.spec.is_carried or self.spec.isolation != "none"
        if not is_copy and (refusal := ceiling.refuse_workspace(self.spec.workspace, host)):
            return refusal
        modes = [wanted.mode, wanted.after_plan or "plan", self.history.mode if self.history.spec else "plan"]
        why = ceiling.explain_bounds(max(modes, key=MODES.index), network=wanted.network)
        if why and self.store.events.emit_once(wanted.job_id, "bounded", wanted.agent_id, why=why):
            log.warning("agent.bounded", agent_id=wanted.agent_id, host=host, why=why)
        return ""

    @property
    def mode(self) -> PermissionMode:
        """The permission mode in force on this worker."""
        return self.ceiling.bound_mode(self.history.mode)

    @property
    def history(self) -> History:
        """What the journal tells so far."""
        return self.journal.history

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
        if self.claim.permissions is not None and self.history.length <= _FIRST_ENTRIES:
            return self.claim.permissions
        return self.store.jobs.permissions(self.spec.job_id)

    def may_read(self, path: Path) -> bool:
        """Whether the rules in force let the agent read this file."""
        return may_read(path, self.rules, Path(self.spec.workspace))

    def carried(self, name: str, kind: type[RecordT], what: str) -> RecordT | None:
        """What travels with the job under this name; None if nothing does. Raises `UnreadableRecord`."""
        digest = self.claim.documents.get(name, "")
        return read_once(kind, digest, self.store.jobs.document, f"{what} of {self.spec.job_id}") if digest else None


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
