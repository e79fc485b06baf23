"""Publishes wake-ups to the queue and stops to the workers.

A wake-up is a Celery message for one agent, checked when it is sent and again when it arrives. Both kinds are hints. Rescue repeats a
lost wake-up, because the agent stays in the outbox until it is claimed. A worker notices a lost stop when it next renews its
leases.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from celery import Celery
from kombu import Producer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swarm.agent.needs import read_needs
from swarm.core.errors import PayloadRefused
from swarm.core.formats import FIRST, NewerFormat, upgrade
from swarm.core.ids import root_agent_id
from swarm.core.log import EventLog
from swarm.core.release import FORMAT
from swarm.store.store import Store
from swarm.store.values import Hint, Signals

log = EventLog("swarm.publish")
TASK_NAME = "swarm.agent"
STOP_COMMAND = "swarm_stop_agents"
NEAR_SECONDS = 1.0
"""How long an agent waits for the host that has its files before any host may take it."""
QUEUE_SECONDS = 600
"""How long a worker's own queue is kept after its last message."""
ID_PATTERN = r"^agent-[0-9a-f]{16}$"


def carry_out(app: Celery, store: Store, effect: Signals | None) -> None:
    """Carry out a step's effects. Without a broker, the outbox keeps unsent wake-ups."""
    if effect is None:
        return
    try:
        _tell(app, store, effect)
        for job_id in effect.rest:
            settle(app, store, job_id)
    except Exception as error:
        # Connection errors have many types: Kombu may use a channel that it has closed, an AttributeError.
        log.warning("publish.deferred", agents=len(effect.publish), error=repr(error))


def settle(app: Celery, store: Store, job_id: str, *, until: float = float("inf")) -> None:
    """Finish the work that an end leaves in a job, in steps that let Redis serve others.

    Stops at `until`, a time of `monotonic`.
    """
    left = True
    while left and time.monotonic() < until:
        left, effect = store.jobs.settle(job_id)
        _tell(app, store, effect)


def _tell(app: Celery, store: Store, effect: Signals) -> None:
    if effect.publish:
        publish_agents(app, store, map(Hint.read, effect.publish))
    if effect.kill:
        app.control.broadcast(STOP_COMMAND, arguments={"agents": list(effect.kill)}, reply=False)


def publish_agents(app: Celery, store: Store, hints: Iterable[Hint | None], *, queue: str | None = None) -> None:
    """Send a wake-up for each of these agents that is queued, to all workers or to the queue of one, in one round trip.

    Agents with carried files go first to the host that has the files, including those ignored by git. It fetches nothing.
    """
    queued = [hint for hint in hints if hint is not None and hint.state == "queued"]
    near = store.fleet.send_near([hint.agent for hint in queued if hint.carried and queue is None], NEAR_SECONDS)
    with app.producer_pool.acquire(block=True) as producer, _together(producer, len(queued)):
        for hint in queued:
            needs = read_needs(hint.needs)
            payload = Payload(
                v=FIRST if needs is None else needs.format,
                agent=hint.agent,
                job=hint.job,
                parent=hint.parent,
                depth=hint.depth,
                max_depth=hint.max_depth,
                definition=hint.definition,
            )
            app.send_task(
                TASK_NAME,
                args=(payload.model_dump(mode="json"),),
                task_id=hint.agent,
                queue=f"{app.conf.task_default_queue}.{near[hint.agent]}" if hint.agent in near else queue,
                # Prompts stay out of logs and Flower. A row shows a readable name; a root's label is made from its prompt.
                argsrepr=hint.label if hint.parent else f"{hint.definition}: {hint.job}",
                kwargsrepr="{}",
                root_id=root_agent_id(hint.job),
                # A root has none; Celery would set the agent that woke it.
                headers={"parent_id": hint.parent},
                producer=producer,
                # The list needs no declaration, and a connection that breaks during one would lose the message.
                declare=[],
                ignore_result=True,
            )
    for worker in set(near.values()):
        # A worker that ends leaves no queue behind; its unread messages go to others.
        store.fleet.keep_queue(f"{app.conf.task_default_queue}.{worker}", QUEUE_SECONDS)


def _together(producer: Producer, count: int) -> AbstractContextManager[None]:
    """Send several messages in one round trip, where the transport can."""
    together = getattr(producer.channel, "together", None)
    return nullcontext() if together is None or count < 2 else together()


# -- the message --------------------------------------------------------------------------------------------------


class Payload(BaseModel):
    """The message that starts a segment. It names the agent; its record holds the rest.

    `depth` and `max_depth` are for people and routing. A message whose values differ from the record is forged
    or broken and is refused. Its format is the record's, so each worker that may claim the agent can read it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    v: int = Field(default=FIRST, ge=FIRST)
    agent: str = Field(pattern=ID_PATTERN)
    job: str = Field(pattern=r"^job-[0-9a-f]{16}$")
    parent: str | None = Field(default=None, pattern=ID_PATTERN)
    depth: int = Field(ge=0, le=64)
    max_depth: int = Field(ge=0, le=64)
    definition: str = Field(max_length=64)

    def told(self) -> list[str]:
        """The agent's values in the order in which the claiming step compares them with the record."""
        return [self.job, self.parent or "", str(self.depth), self.definition, str(self.max_depth)]


def read_payload(raw: object, *, task_id: str) -> Payload:
    """Validate a received payload. Raises `PayloadRefused` with the faulty field, and `NewerFormat`."""
    if not isinstance(raw, Mapping):
        raise PayloadRefused(
            f"task {task_id}: the payload is a {type(raw).__name__}, not an object; was it sent by something else?"
        )
    if isinstance(written := raw.get("v"), int) and written > FORMAT:
        raise NewerFormat(written)
    try:
        payload = Payload.model_validate(upgrade("message", dict(raw)) if type(written) is int else dict(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PayloadRefused(f"task {task_id}: payload field {where!r}: {first['msg']}") from error
    if payload.agent != task_id:
        raise PayloadRefused(f"task {task_id}: the payload is for {payload.agent}; an agent's id is its task id")
    return payload


def check_against_record(payload: Payload, hint: Hint) -> None:
    """Raise `PayloadRefused` if the message contradicts the agent's record."""
    for name in ("job", "parent", "depth", "definition", "max_depth"):
        told, kept = getattr(payload, name), getattr(hint, name)
        if told != kept:
            raise PayloadRefused(
                f"task {payload.agent}: {name} is {told!r} in the message but {kept!r} in the record; refused"
            )
