"""Keeps triggers and their events in Redis.

Guarantees:

- An event is taken in once for its id, and a time of a schedule once, however many workers look.
- A firing is offered to one worker at a time until it is settled, and its job's id is fixed when it is taken in, so it starts one job.
- The step that ends a job gives the next event of its key its turn and settles its trigger's purse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from swarm.capabilities.triggers.model import Trigger, TriggerEvent, firing_key, job_of, key_of
from swarm.capabilities.triggers.schedules import LATE_SECONDS, due_at, missed_times, name_time, times_after
from swarm.core.errors import ConfigurationError, RedisFull, UnknownTrigger
from swarm.core.ids import job_id_for
from swarm.core.usage import NANO
from swarm.permissions.ceiling import Ceiling
from swarm.store.keyspace import Keyspace

_PERIOD_SECONDS = {"hour": 3_600, "day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400}
FiringState = Literal["waiting", "starting", "started", "skipped", "refused", "failed"]


class Owner(BaseModel, frozen=True):
    """The person or key that put a trigger; its jobs may not do more."""

    name: str
    ceiling: Ceiling = Ceiling()


class TriggerView(BaseModel, frozen=True):
    """A trigger and what became of its events. Times are Unix seconds."""

    name: str
    trigger: Trigger
    by: str
    """The owner's name."""
    host: str = ""
    """The host that has its workspace; empty if any host can start its jobs."""
    at: float
    """When it was put, or changed last."""
    paused_at: float | None = None
    next_at: float | None = None
    """The next time of its schedule."""
    events: int = 0
    """Number of events that it took in within the last days."""
    waiting: int = 0
    """Number of the newest hundred of them that have not started yet."""
    last_at: float | None = None

    @property
    def starts(self) -> str:
        """What starts its jobs, for people."""
        if self.trigger.schedule:
            zone = "" if self.trigger.timezone == "UTC" else f" {self.trigger.timezone}"
            return f"{self.trigger.schedule}{zone}"
        return f"webhook {self.trigger.webhook}" if self.trigger.webhook else "by hand"


class Firing(BaseModel, frozen=True):
    """An event that a trigger took in."""

    id: str
    at: float
    state: FiringState
    job: str = ""
    """The job that it started, or will; of a skipped one the open job."""
    why: str = ""
    """Why it started none."""
    key: str = ""
    tries: int = 0
    event: TriggerEvent | None = None
    """Only if one firing is asked for, while it is kept."""


class TakenEvent(NamedTuple):
    """The answer to an event."""

    state: Literal["taken", "duplicate", "paused", "many"]
    job: str = ""


class DueFiring(NamedTuple):
    """A firing to be started now."""

    name: str
    id: str
    trigger: Trigger
    owner: Owner
    event: TriggerEvent
    job: str
    fate: Literal["start", "replace", "continue"]
    other: str
    """The job to replace or to continue."""
    tries: int


class _Record(BaseModel):
    trigger: Trigger
    owner: Owner
    host: str = ""


class Triggers:
    """The triggers of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def put(self, trigger: Trigger, owner: Owner, host: str) -> Literal["new", "changed", "same"]:
        """Put a trigger, or change the one of its name. A schedule counts from now on."""
        facts: dict[str, Any] = {"rule": trigger.concurrency, "host": host}
        if trigger.purse and trigger.budget_usd is not None:
            facts |= {"purse": round(trigger.purse.usd * NANO), "budget": round(trigger.budget_usd * NANO)}
            facts["per"] = _PERIOD_SECONDS[trigger.purse.per]
        record = _Record(trigger=trigger, owner=owner, host=host).model_dump_json(exclude_defaults=True)
        times = self._next(trigger)
        found: Any = self._keyspace.run("put_trigger", trigger.name, record, owner.name, json.dumps(facts), *times)
        return found  # type: ignore[no-any-return]

    def delete(self, name: str) -> None:
        """Delete a trigger with its firings; its jobs stay. Raises `UnknownTrigger`."""
        if not self._keyspace.run("delete_trigger", name):
            raise UnknownTrigger(name)

    def pause(self, name: str, *, paused: bool) -> None:
        """Take in no events, or take them in again; times that pass meanwhile are not made up for. Raises `UnknownTrigger`."""
        times = ("", "") if paused else self._next(self.get(name).trigger)
        if not self._keyspace.run("pause_trigger", name, int(paused), *times):
            raise UnknownTrigger(name)

    def _next(self, trigger: Trigger) -> tuple[float | str, float | str]:
        if not trigger.schedule:
            return "", ""
        time = next(times_after(trigger.schedule, trigger.timezone, self._keyspace.now()))
        return time, due_at(trigger.name, time, trigger.jitter_seconds)

    def all(self) -> list[TriggerView]:
        """All triggers, by when they were first put."""
        return self._list("")

    def get(self, name: str) -> TriggerView:
        """One trigger. Raises `UnknownTrigger`."""
        if not (found := self._list(name)):
            raise UnknownTrigger(name)
        return found[0]

    def _list(self, only: str) -> list[TriggerView]:
        found = iter(self._keyspace.run("list_triggers", only))
        views = []
        for name, document, by, at, paused, next_at, events, waiting, last in zip(*[found] * 9, strict=True):
            record = _Record.model_validate_json(document)
            told = {"paused_at": paused or None, "next_at": next_at or None, "last_at": last or None}
            counted = {"events": events, "waiting": waiting}
            views.append(
                TriggerView(name=name, trigger=record.trigger, by=by, host=record.host, at=float(at), **told, **counted)
            )
        return views

    def firings(self, name: str, count: int = 20) -> list[Firing]:
        """The newest firings of a trigger. Raises `UnknownTrigger`."""
        self.get(name)
        return self._firings(name, "", count)

    def firing(self, name: str, firing_id: str) -> Firing:
        """One firing with its event. Raises `UnknownTrigger`, `ConfigurationError`."""
        self.get(name)
        if not (found := self._firings(name, firing_id, 1)):
            raise ConfigurationError(
                f"the trigger {name} has no event {firing_id!r}; `swarm triggers show {name}` lists them"
            )
        return found[0]

    def _firings(self, name: str, only: str, count: int) -> list[Firing]:
        found = iter(self._keyspace.run("list_firings", name, only, count))
        return [
            Firing(
                id=one,
                at=float(at),
                state=state,
                job=job,
                why=why,
                key=key,
                tries=int(tries),
                event=TriggerEvent.model_validate_json(event) if event else None,
            )
            for one, at, state, job, why, key, tries, event in zip(*[found] * 8, strict=True)
        ]

    def take_event(self, trigger: Trigger, event: TriggerEvent, *, by_hand: bool = False) -> TakenEvent:
        """Take in an event that the trigger accepts. Raises `UnknownTrigger`, `RedisFull`, `ConfigurationError`."""
        name = trigger.name
        key, job = key_of(trigger, event), job_id_for(firing_key(name, event.id))
        bounds = (trigger.per_hour, "1" if by_hand else "")
        answer = self._keyspace.run(
            "take_event", name, event.id, event.model_dump_json(), key, job, job_of(key), *bounds
        )
        match answer:
            case ["duplicate", _, job]:
                return TakenEvent("duplicate", job)
            case ["unknown"]:
                raise UnknownTrigger(name)
            case ["full", used, most]:
                raise RedisFull(int(used), int(most))
            case ["taken"]:
                return TakenEvent("taken", job)
        return TakenEvent(answer[0])

    def look(self, host: str) -> tuple[bool, list[tuple[str, Trigger, str]]]:
        """Whether firings are due on a host, and the schedules that are due, each with its next time as Redis has it."""
        waits, *rest = self._keyspace.run("due_schedules", host, 100)
        found = iter(rest)
        schedules = [
            (name, _Record.model_validate_json(document).trigger, expected)
            for name, document, expected in zip(found, found, found, strict=True)
        ]
        return waits == "1", schedules

    def advance(self, name: str, trigger: Trigger, expected: str, now: float) -> None:
        """Take in the times of a schedule that have come, as its `catch_up` says, and set its next one."""
        times, next_time = missed_times(trigger.schedule, trigger.timezone, float(expected), now)
        events = [self._event_of(trigger, time) for time in choose_times(trigger, times, now)]
        due = due_at(name, next_time, trigger.jitter_seconds)
        self._keyspace.run("advance_schedule", name, expected, next_time, due, json.dumps(events))

    def _event_of(self, trigger: Trigger, time: float) -> Sequence[str]:
        name = name_time(time)
        event = TriggerEvent(id=name, type="schedule", data={"time": name})
        return event.id, event.model_dump_json(), key_of(trigger, event), job_id_for(firing_key(trigger.name, event.id))

    def take_due(self, host: str, most: int, lease_seconds: float) -> list[DueFiring]:
        """Take firings that are due on a host; unsettled ones are offered again after the lease."""
        found = iter(self._keyspace.run("take_firings", host, most, lease_seconds))
        taken = []
        for name, one, document, event, job, fate, other, tries in zip(*[found] * 8, strict=True):
            record = _Record.model_validate_json(document)
            read = TriggerEvent.model_validate_json(event)
            taken.append(DueFiring(name, one, record.trigger, record.owner, read, job, fate, other, int(tries)))
        return taken

    def settle(self, due: DueFiring, job: str) -> None:
        """Settle a firing whose job exists."""
        self._keyspace.run("settle_firing", due.name, due.id, "started", job, "")

    def fail(self, due: DueFiring, why: str) -> None:
        """Settle a firing that can start no job."""
        self._keyspace.run("settle_firing", due.name, due.id, "failed", "", why)


def choose_times(trigger: Trigger, times: Sequence[float], now: float) -> Sequence[float]:
    """The times of a schedule that start jobs, out of all since the last look."""
    match trigger.catch_up:
        case "all":
            return times
        case "last":
            return times[-1:]
        case "none":
            return [time for time in times[-1:] if time >= now - LATE_SECONDS - trigger.jitter_seconds]
