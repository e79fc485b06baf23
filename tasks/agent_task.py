"""The Celery task: one delivery runs one segment of an agent."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from celery import Task
from celery.exceptions import Terminated, WorkerLostError
from celery.worker.request import Request

from swarm.agent.needs import find_files_lack, find_unmet, needs_of, read_needs
from swarm.core.errors import Interrupted, PayloadRefused, RedisUnavailable, SwarmError
from swarm.core.formats import NewerFormat
from swarm.core.ids import trace_id
from swarm.core.log import EventLog, at_work_for
from swarm.runtime.loop import Loop
from swarm.runtime.segment import Ended, GaveUp, HandedOver, NoRoom, Outcome, Segment, Stop, Unserved, Waits
from swarm.store.outage import Outage, RedisError
from swarm.store.store import Store
from swarm.store.values import Claim, Refused
from swarm.tasks import heartbeat, process
from swarm.tasks.app import app
from swarm.tasks.entries import log_refusal
from swarm.tasks.publish import TASK_NAME, Payload, carry_out, check_against_record, read_payload

log = EventLog("swarm.agent")
_ROW_CHARACTERS = 1_000
"""Celery cuts results at 1 024 characters; a pipe takes at most 4 096 bytes in one part."""
_ASIDE_SECONDS = 30.0
"""Delay before an agent that no worker has fetched is offered to all again."""
_ROW = re.compile(r"<(open|failed|completed) ([0-9.]+)> (.*)", re.DOTALL)


@dataclass(frozen=True)
class FlowerRow:
    """A delivery's change to its agent's row in Flower. `seconds` counts from the first segment.

    A task returns the row and raises nothing. A failure or an `Ignore` would travel to the main process with its traceback, about 30 kB
    in two parts. A main process that shuts down between the parts misreads the second, and its children wait for half a minute.
    The row travels as its `repr`, in one part.
    """

    state: Literal["open", "failed", "completed"]
    about: str
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<{self.state} {self.seconds:.3f}> {self.about}"[:_ROW_CHARACTERS]

    @classmethod
    def read(cls, text: str) -> FlowerRow | None:
        """Parse the row with this `repr`; None for any other text."""
        found = _ROW.fullmatch(text)
        return None if found is None else cls(found[1], found[3], float(found[2]))  # type: ignore[arg-type]


class AgentRequest(Request):  # type: ignore[misc]
    """A delivery in the worker's main process, which first notices a child process' death."""

    reported_dead = False

    def send_event(self, type: str, **fields: Any) -> None:
        """Send the row's event: none for an open row, the agent's whole time for an ended one.

        Celery derives a class with its own `on_success`, so the event is the first thing that can be changed here.
        """
        row = FlowerRow.read(str(fields.get("result"))) if type == "task-succeeded" else None
        match row:
            case FlowerRow(state="open"):
                return
            case FlowerRow(state="failed", about=about, seconds=seconds):
                type, fields = "task-failed", {"exception": about, "traceback": "", "runtime": seconds}
            case FlowerRow(about=about, seconds=seconds):
                fields |= {"result": about, "runtime": seconds}
        super().send_event(type, **fields)

    def report_dead(self) -> None:
        """End the claim of this delivery's process, once: a sibling may have the next claim."""
        if not self.reported_dead:
            self.reported_dead = True
            process.report_dead(self.id)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """End the claim of a lost process at once instead of at the end of its lease."""
        # Billiard wraps the exception to carry its traceback along.
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, (WorkerLostError, Terminated)):
            self.report_dead()
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> Any:
        """End the claim of a hung process that was killed at the hard limit."""
        if not soft:
            self.report_dead()
        return super().on_timeout(soft, timeout)


class AgentTask(Task):  # type: ignore[misc]
    """Base of the agent task, with our request class and events that keep Flower's row correct."""

    Request = AgentRequest
    abstract = True

    def send_quietly(self, event: str, **fields: Any) -> None:
        """Send a task event. Events are optional, so errors are only logged."""
        try:
            self.send_event(event, **fields)
        except Exception as error:
            log.debug("event.lost", event_name=event, error=error)


@app.task(name=TASK_NAME, bind=True, base=AgentTask, max_retries=0)  # type: ignore[untyped-decorator]
def run_agent(self: AgentTask, payload: object) -> FlowerRow:
    """Run the agent's next segment if it is runnable and unclaimed. Returns its row for Flower."""
    runtime = process.runtime()
    process.drop_silent_connections()
    agent_id = str(self.request.id)
    with process.running(agent_id) as stop:
        try:
            return _run(self, runtime, read_payload(payload, task_id=agent_id), stop)
        except PayloadRefused as error:
            log_refusal(error)
            return FlowerRow("failed", str(error))
        except NewerFormat as error:
            _leave_to_others(runtime.store, agent_id, str(error))
            return FlowerRow("open", "left to others")
        except (RedisUnavailable, Interrupted) as error:
            # Nothing is claimed. The outbox offers the agent again.
            log.warning("agent.not_begun", agent_id=agent_id, why=error)
            return FlowerRow("open", "not begun")
        finally:
            if stop.requested and not stop.event.is_set():
                runtime.forget_models()


def _run(task: AgentTask, runtime: process.Runtime, known: Payload, stop: Stop) -> FlowerRow:
    agent_id, patience = known.agent, _Patience(stop)
    # The worker has received this task, so its password is good.
    outage = Outage(patience.tell, who=agent_id, check=patience.check, has_answered=lambda: True)
    store = runtime.store.outlasting(outage)
    if process.serves(known.job):
        # The claim itself includes all checks.
        claim = store.agents.claim(agent_id, process.worker_name(), runtime.settings.lease_seconds, known.told())
        if not (isinstance(claim, Refused) and claim.why in ("contradicted", "unknown", "wants")):
            return _run_if_claimed(task, runtime, store, claim, stop, patience)
    [hint] = store.agents.hints([agent_id])
    if hint is None:
        raise PayloadRefused(
            f"task {agent_id}: no such agent in this Redis; its job has expired, or the message was forged"
        )
    check_against_record(known, hint)
    needs = read_needs(hint.needs)
    if needs is None:
        log.error("agent.unreadable", agent_id=agent_id, error="a newer version made it")
        return FlowerRow("open", "left to others")
    if lack := find_unmet(needs, heartbeat.has()):
        _leave_to_others(store, agent_id, lack)
        return FlowerRow("open", "left to others")
    claim = store.agents.claim(agent_id, process.worker_name(), runtime.settings.lease_seconds)
    return _run_if_claimed(task, runtime, store, claim, stop, patience)


def _run_if_claimed(
    task: AgentTask, runtime: process.Runtime, store: Store, claim: Claim | Refused, stop: Stop, patience: _Patience
) -> FlowerRow:
    if isinstance(claim, Refused):
        log.debug("agent.not_runnable", agent_id=str(task.request.id), why=claim.why)
        return FlowerRow("open", "not runnable")
    patience.claim = claim
    if claim.spec.is_carried and (lack := find_files_lack(needs_of(claim.spec), heartbeat.has())):
        carry_out(app, store, store.agents.hand_over(claim, "its files cannot reach this worker"))
        _leave_to_others(store, claim.agent_id, lack)
        return FlowerRow("open", "left to others")
    if claim.generation > 1:
        task.send_quietly("task-running")
    ids = {"job_id": claim.spec.job_id, "agent_id": claim.agent_id, "generation": claim.generation}
    with at_work_for(**ids, trace_id=trace_id(claim.spec.job_id)):
        return _run_segment(task, runtime, store, claim, stop)


def _age(claim: Claim) -> float:
    """Seconds since the agent's first segment began, waits included."""
    return 0.0 if claim.began_at is None else max(0.0, claim.now() - claim.began_at)


def _leave_to_others(store: Store, agent_id: str, lack: str) -> None:
    """Leave a queued agent for a suitable worker to fetch."""
    log.debug("agent.left", agent_id=agent_id, why=lack)
    carry_out(app, store, store.fleet.set_aside(agent_id, _ASIDE_SECONDS))


class _Patience:
    """Limits a delivery's wait for Redis. With a claim it lasts as long as the job may."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.claim: Claim | None = None

    def tell(self, what: str) -> None:
        log.warning("redis.away", what=what)

    def check(self) -> None:
        """Raise `Interrupted` or `RedisUnavailable` when waiting no longer helps."""
        self._stop.check()
        if self.claim is None and process.draining():
            raise RedisUnavailable("its worker is shutting down, and Redis is unreachable")
        if self.claim is not None and self.claim.deadline is not None and self.claim.now() > self.claim.deadline:
            raise RedisUnavailable("Redis was unreachable until the job's time limit")


def _run_segment(task: AgentTask, runtime: process.Runtime, store: Store, claim: Claim, stop: Stop) -> FlowerRow:
    log.info("agent.running", agent_id=claim.agent_id, generation=claim.generation, label=claim.spec.log_name)
    try:
        segment = Segment(
            claim,
            store=store,
            settings=runtime.settings,
            publish=lambda effect: carry_out(app, store, effect),
            stop=stop,
            model=runtime.model_for(claim.spec),
            disk=runtime.disk,
        )
        outcome: Outcome = Loop(segment, draining=heartbeat.explain_leaving).run()
    except (RedisUnavailable, Interrupted) as error:
        # Not the agent's fault, so no death. The outbox offers it later: an immediate attempt would fail, too.
        log.warning("agent.set_back", agent_id=claim.agent_id, why="Redis did not accept its step", error=error)
        with suppress(RedisError, SwarmError):
            runtime.store.agents.hand_over(claim, "Redis did not accept its step")
        return FlowerRow("open", "set back")
    except Exception:
        # A broken invariant. It counts as a death: retried, but not forever.
        process.report_dead(claim.agent_id)
        raise
    match outcome:
        case Ended(state="completed", summary=summary):
            log.info("agent.completed", agent_id=claim.agent_id, summary=summary)
            return FlowerRow("completed", summary, _age(claim))
        case Ended(state=state, summary=summary):
            log.warning(f"agent.{state}", agent_id=claim.agent_id, reason=summary)
            return FlowerRow("failed", summary, _age(claim))
        case Waits(condition=condition):
            log.info("agent.parked", agent_id=claim.agent_id, children=len(condition.children), until=condition.until)
            task.send_quietly("task-parked")
            return FlowerRow("open", "parked")
        case HandedOver(why=why):
            log.info("agent.handed_over", agent_id=claim.agent_id, why=why)
            task.send_quietly("task-parked")
            return FlowerRow("open", "handed over")
        case Unserved(model=model, why=why):
            heartbeat.note_refusal(model, why)
            task.send_quietly("task-parked")
            _leave_to_others(store, claim.agent_id, why)
            return FlowerRow("open", "left to others")
        case NoRoom(why=why, effect=effect):
            heartbeat.note_fault("disk", f"its disk is full ({why})")
            carry_out(app, store, effect)
            task.send_quietly("task-parked")
            _leave_to_others(store, claim.agent_id, why)
            return FlowerRow("open", "left to others")
        case GaveUp(why=why, cancelled=cancelled):
            log.warning("agent.given_up", agent_id=claim.agent_id, why=why)
            if cancelled:
                task.send_quietly("task-revoked", terminated=True, signum="", expired=False)
            return FlowerRow("open", "given up")
