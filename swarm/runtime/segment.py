"""A segment: the part of an agent's run in one delivery, with its context and outcomes."""

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
from swarm.permissions.ceiling import UNLIMITED, Ceiling, read_ceiling
from swarm.permissions.judge import may_read
from swarm.permissions.modes import MODES
from swarm.permissions.rules import Rule, Rules
from swarm.runtime.journal import Journal
from swarm.runtime.share import Share
from swarm.store.documents import RecordT, read_once, read_record
from swarm.store.durable import Disk
from swarm.store.slots import Slot
from swarm.store.store import Store
from swarm.store.values import Claim, JobPermissions, Signals

log = EventLog("swarm.segment")
_FIRST_ENTRIES = 2
"""`started` and the task."""


@dataclass
class Stop:
    """The stop request of a running segment."""

    agent_id: str
    requested: bool = False
    event: threading.Event = field(default_factory=threading.Event)
    """Set by other threads only: a signal handler may interrupt a thread that holds its lock."""
    thread: int = field(default_factory=threading.get_ident)
    _waiting: bool = False

    def check(self) -> None:
        """Raise `Interrupted` once the agent must stop."""
        if self.requested:
            raise Interrupted(f"agent {self.agent_id} must stop")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a stretch that a stop signal may interrupt.

        Elsewhere it could leave a lock held, and hang the process forever.
        """
        self._waiting = True
        try:
            self.check()
            yield
        except Exception:
            self._waiting = False
            self.check()  # another thread ends a wait by cutting its connection
            raise
        finally:
            self._waiting = False

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """Mark a stretch within `waiting` that must not be interrupted."""
        before, self._waiting = self._waiting, False
        try:
            yield
        finally:
            self._waiting = before
        self.check()

    def on_signal(self) -> None:
        """Handle the stop signal on the thread that runs the agent."""
        self.requested = True
        if self._waiting:
            # Interrupt once: a second signal must not disturb the handling of the first.
            self._waiting = False
            self.check()


@dataclass(frozen=True)
class Segment:
    """Everything that acts for the agent works with this context."""

    claim: Claim
    store: Store
    settings: Settings
    publish: Callable[[Signals | None], None]
    """Carries out effects of a store step: wakes, stops."""
    stop: Stop
    model: Model
    disk: Disk | None = None

    @cached_property
    def journal(self) -> Journal:
        """The agent's journal."""
        model = self.claim.spec.model
        share = Share(self.claim, self._limit_class(model), self.settings.prices_file)
        most = self.settings.agent_journal_mib, self.settings.job_journals_mib
        return Journal(self.claim, self.store, self.publish, share, self.disk, most)

    def _limit_class(self, model: str) -> str:
        # Batches have separate limits, and a harness' requests their own turns.
        spec = self.claim.spec
        return "" if spec.batch or spec.definition.harness else self.model.limit_class(model)

    @property
    def model_id(self) -> str:
        """The full id of the model that the agent asks now."""
        return self.journal.share.model

    def follow_switch(self, slot: Slot | None = None) -> None:
        """Ask for slots of the model in use, which the journal tells; `slot` is one that the agent may hold."""
        switched = self.history.switched
        if switched is not None and switched.model != self.model_id:
            self.journal.share.turn_to(switched.model, self._limit_class(switched.model), slot)

    @cached_property
    def ceiling(self) -> Ceiling:
        """The most that this worker allows."""
        return read_ceiling(self.settings)

    @cached_property
    def spec(self) -> AgentSpec:
        """The agent's spec, bounded by this worker's ceiling. `Loop` checks its folder."""
        spec, ceiling = self.claim.spec, self.ceiling
        if ceiling is UNLIMITED:
            return spec
        after = None if spec.after_plan is None else ceiling.bound_mode(spec.after_plan)
        network = spec.network and ceiling.network
        mode, folders = ceiling.bound_mode(spec.mode), ceiling.bound_folders(spec.folders)
        return spec.model_copy(update={"mode": mode, "after_plan": after, "network": network, "folders": folders})

    @cached_property
    def workspace(self) -> Path:
        """The agent's folder, without links."""
        return Path(self.spec.workspace).resolve()

    def keep_below_ceiling(self) -> str:
        """Explain why the agent may not work in its folder, else empty. Reports reductions once."""
        if self.ceiling is UNLIMITED:
            return ""
        host, ceiling, wanted = socket.gethostname(), self.ceiling, self.claim.spec
        # This worker chooses the place of copies, and checks it when the agent enters.
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
        """The history folded from the journal so far."""
        return self.journal.history

    @cached_property
    def rules(self) -> Rules:
        """Permission rules of the job, of approvals and of the agent. Raises `UnreadableRecord`."""
        of_job, what = self._permissions, f"the rules of {self.spec.job_id}"
        rules = read_record(Rules, of_job.rules, what) if of_job.rules else Rules()
        return rules + Rules(rules=tuple(read_record(Rule, rule, what) for rule in of_job.added)) + self.spec.rules

    @property
    def ask_seconds(self) -> float:
        """How long the job's person can answer a question; 0 if there is none."""
        return self._permissions.ask_seconds

    @cached_property
    def _permissions(self) -> JobPermissions:
        # While the agent has done nothing yet, permissions from the claim are current.
        if self.claim.permissions is not None and self.history.length <= _FIRST_ENTRIES:
            return self.claim.permissions
        return self.store.jobs.permissions(self.spec.job_id)

    def may_read(self, path: Path) -> bool:
        """Whether the rules in force let the agent read this file."""
        return may_read(path, self.rules, Path(self.spec.workspace))

    def carried(self, name: str, kind: type[RecordT], what: str) -> RecordT | None:
        """Read a document of the job; None if it has none of this name. Raises `UnreadableRecord`."""
        digest = self.claim.documents.get(name, "")
        return read_once(kind, digest, self.store.jobs.document, f"{what} of {self.spec.job_id}") if digest else None


@dataclass(frozen=True)
class Ended:
    """The agent has ended."""

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
    """The agent is queued again unchanged: this worker cannot use the model `model` (`*`: any)."""

    model: str
    why: str


@dataclass(frozen=True)
class NoRoom:
    """The agent is queued again: this host's disk is full. `effect` is published once the host is known to take no agents."""

    why: str
    effect: Signals


@dataclass(frozen=True)
class GaveUp:
    """The agent is no longer ours: it was cancelled, or another worker claimed it."""

    why: str
    cancelled: bool = False


Outcome = Ended | Waits | HandedOver | Unserved | NoRoom | GaveUp
