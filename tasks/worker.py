"""Duties of a worker besides agents: renew leases, rescue, obey stops, shut down gracefully.

All of it runs in the worker's main process, so a busy or hung child cannot starve it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from billiard import pool as billiard_pool
from celery import bootsteps, signals
from celery.worker import state as worker_state
from celery.worker.control import control_command

from swarm.core.errors import ConfigurationError, RedisUnavailable, SwarmError
from swarm.core.log import EventLog, shape_lines
from swarm.core.settings import load_settings
from swarm.local.exposure import find_exposures
from swarm.local.job_stack import Keeper
from swarm.runtime.scratch import scratch_root
from swarm.store.connection import ping_server
from swarm.store.leases import longest_gap
from swarm.store.outage import RedisError
from swarm.store.store import Store
from swarm.tasks import heartbeat, process
from swarm.tasks.app import app
from swarm.tasks.callbacks import PUBLISH_SECONDS, Publishing, Stranded
from swarm.tasks.consumer import TimerCare, obey_drain
from swarm.tasks.consumer_guard import LOOK_SECONDS, Hearing, Silence, list_queued
from swarm.tasks.fetcher import FETCH_SECONDS, Fetching, Rung
from swarm.tasks.host import HubWatch
from swarm.tasks.housekeeping import (
    CLEAN_SECONDS,
    DISK_SECONDS,
    SPARE_SECONDS,
    Housekeeper,
    ObjectsCare,
    SpareCheckouts,
)
from swarm.tasks.publish import STOP_COMMAND, TASK_NAME, carry_out, settle
from swarm.tasks.thread_pool import choose_pool
from swarm.tools.background import kill_orphans

log = EventLog("swarm.worker")
OUTBOX_AGE_SECONDS = 5.0
"""How long an agent may stay unclaimed with no message queued before that counts as lost."""
ORPHAN_SWEEP_SECONDS = 20.0
GOVERNOR_SECONDS = 1.0
"""Interval between looks for agents that wait for the model, served if there is room."""
KEEPER_SECONDS = 0.1
LATE_SECONDS = 0.005
"""Delay after a lease's end before it is checked, because clocks and sleeps are inexact."""
LAST_WAIT_SECONDS = 1.0
"""How long an ending pool process waits for the main process to read its result."""


@signals.after_setup_logger.connect  # type: ignore[untyped-decorator]
@signals.after_setup_task_logger.connect  # type: ignore[untyped-decorator]
def _shape_lines(logger: logging.Logger, **_: Any) -> None:
    shape_lines(logger, load_settings().log_format)


@signals.worker_init.connect  # type: ignore[untyped-decorator]
def _prepare_main(sender: Any = None, **_: Any) -> None:
    if sender is not None:
        try:
            sender.pool_cls = choose_pool(sender.pool_cls)
            # A Redis that is away comes back; an unfit one stays unfit.
            with suppress(RedisUnavailable, RedisError):
                ping_server(load_settings())
        except ConfigurationError as error:
            raise SystemExit(str(error)) from error  # Celery only logs other exceptions
    # Our own lines report an agent's outcome; to Celery every returned result is a success.
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)
    # Nor is a delivery worth a line of the main process: its process says what came of it.
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    # A log line per model request says nothing that the journal does not.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    bound_last_wait()
    heartbeat.share()
    process.prepare_main()
    heartbeat.prepare()


def bound_last_wait() -> None:
    """Shorten the final wait of pool processes.

    Celery waits half a minute for a result; ours are in Redis. A main process that has reconnected no longer counts earlier results, so
    the processes, and the worker with them, would wait in vain.
    """
    interval = billiard_pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_INTERVAL
    billiard_pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = round(LAST_WAIT_SECONDS / interval)


def survive_deaths_at_start(pool: Any) -> None:
    """Replace a child that is killed while its worker starts, as at any other time.

    Celery ends a worker that lacks a child when it begins to listen, because children that cannot start would be restarted forever. Those
    exit by themselves; a kill from outside says nothing about the next one.
    """
    children = getattr(pool, "_pool", None)
    if isinstance(children, billiard_pool.Pool):
        pool.did_start_ok = lambda: all((code or 0) < 0 for code in children._join_exited_workers())


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _prepare_child(**_: Any) -> None:
    process.prepare_child()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _leave(how: str = "Warm", **_: Any) -> None:
    # After a warm or a cold stop, no agent begins another turn here.
    process.start_draining()
    if how.lower() == "cold":
        # Others may have these agents now. Celery has forgotten its requests already, so the leases list them.
        for agent_id in process.runtime().store.leases.held_by(process.worker_name()):
            process.report_dead(agent_id)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _say_ready(**_: Any) -> None:
    # After the fork, because it connects; in a thread, because its checks take time.
    threading.Thread(target=_say_what_is_open, name="swarm-exposure", daemon=True).start()
    ready_file = os.environ.get("SWARM_READY_FILE")
    if ready_file:
        Path(ready_file).touch()


def _say_what_is_open() -> None:
    with suppress(RedisError):
        heartbeat.announce()
    for exposure in find_exposures(process.runtime().settings):
        log.warning("worker.exposed", what=exposure.name, found=exposure.found, remedy=exposure.remedy)
    with suppress(RedisError):
        if lack := process.runtime().disk.explain_lack():
            log.error("worker.not_durable", why=lack)


# -- the running agents, in the main process -----------------------------------------------------------------


def _requests() -> dict[str, Any]:
    return {request.id: request for request in list(worker_state.active_requests) if request.task_name == TASK_NAME}


def stop_agent(agent_id: str) -> bool:
    """Stop an agent's segment if it runs on this worker; returns whether it does."""
    if process.stop_here(agent_id):
        return True
    request = _requests().get(agent_id)
    if request is None or not request.worker_pid or request.worker_pid == os.getpid():
        return False
    process.stop_child(agent_id, request.worker_pid)
    return True


@control_command(name=STOP_COMMAND, args=[("agents", list)], signature="<agent id>…")  # type: ignore[untyped-decorator]
def stop_agents(state: Any, agents: list[str]) -> dict[str, list[str]]:
    """Stop the segments of these agents on this worker."""
    stopped = [agent_id for agent_id in agents if stop_agent(agent_id)]
    if stopped:
        log.info("agents.stopped", count=len(stopped))
    return {"stopped": stopped}


# -- the threads ---------------------------------------------------------------------------------------------


class Housekeeping(bootsteps.StartStopStep):  # type: ignore[misc]
    """Renews leases, rescues agents and detects silence, each on its own thread.

    They run from before the first agent until after the last.

    The renewing thread also delivers stops to a leaving worker, which reads no messages any more.
    """

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **_: Any) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, worker: Any) -> None:
        """Start all threads."""
        settings = process.runtime().settings
        heartbeat.introduce(worker.hostname, worker.concurrency)
        survive_deaths_at_start(worker.pool)
        # Announced before it is counted: agents that need its offers should not be left to others.
        _attempt("announce", heartbeat.announce)
        # A worker may start while Redis is unreachable; it is counted as soon as Redis returns.
        _attempt("renew", partial(_report_slots, worker))
        self._spawn("renew", min(2.0, settings.lease_seconds / 4), partial(_report, worker))
        self._spawn("announce", heartbeat.ANNOUNCED_SECONDS / 4, Announcing())
        self._spawn("rescue", settings.sweep_seconds, Sweeper())
        self._spawn("governor", min(GOVERNOR_SECONDS, settings.sweep_seconds), _serve_classes)
        if settings.job_file is not None:
            self._spawn("keep", KEEPER_SECONDS, Keeper(settings, heartbeat.announce))
        self._spawn("hear", min(1.0, settings.sweep_seconds), Hearing(worker.pool))
        fetching = Fetching(worker.pool)
        if heartbeat.has().special:
            self._spawn("fetch", 0, Rung(fetching))
        else:
            self._spawn("fetch", min(FETCH_SECONDS, settings.sweep_seconds), fetching)
        self._spawn("silence", LOOK_SECONDS, Silence())
        self._spawn("spare", SPARE_SECONDS, SpareCheckouts(settings))
        self._spawn("disk", DISK_SECONDS, Housekeeper(settings, process.runtime().store), at_once=True)
        if settings.hub is not None:
            watch = HubWatch(settings, process.runtime().store)
            self._spawn("hub", watch.every_seconds, watch, at_once=True)
        self._spawn("objects", CLEAN_SECONDS, ObjectsCare(process.runtime().store))
        for name, url in settings.brokers.items():
            self._spawn(f"callbacks-{name}", PUBLISH_SECONDS, Publishing(process.runtime().store, name, url))
        for addition in process.runtime().additions:
            for duty in addition.duties(process.runtime()):
                self._spawn(*duty, at_once=True)

    def _spawn(
        self, name: str, every_seconds: float, work: Callable[[], float | None], *, at_once: bool = False
    ) -> None:
        """Repeat work at this interval, or sooner if it returns when it is due again."""

        def loop() -> None:
            pause = 0.0 if at_once else every_seconds
            while not self._stop.wait(pause):
                due = _attempt(name, work)
                pause = every_seconds if due is None else min(due, every_seconds)

        thread = threading.Thread(target=loop, name=f"swarm-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, worker: Any) -> None:
        """Do nothing: agents still run until the pool stops. The threads end with the worker."""

    def terminate(self, worker: Any) -> None:
        """Stop the threads after a cold stop, which has given the agents to others."""
        self._stop.set()


app.steps["consumer"].add(TimerCare)
app.steps["worker"].add(Housekeeping)


def _attempt(name: str, work: Callable[[], float | None]) -> float | None:
    try:
        return work()
    except (RedisError, SwarmError, OSError) as error:
        log.warning(f"{name}.failed", error=error)
    except Exception as error:
        log.error(f"{name}.broke", error=repr(error))
    return None


def _report(worker: Any) -> None:
    _renew_leases()
    obey_drain(worker)
    _report_slots(worker)


def _report_slots(worker: Any) -> None:
    runtime = process.runtime()
    slots = 0 if process.draining() else worker.concurrency
    effect = runtime.store.fleet.staff(process.worker_name(), slots, max(10.0, 2 * runtime.settings.lease_seconds))
    carry_out(app, runtime.store, effect)


def _serve_classes() -> float | None:
    """Give slots to agents that wait for the model; returns the seconds until the next room."""
    runtime = process.runtime()
    effect, due = runtime.store.rates.serve_classes()
    carry_out(app, runtime.store, effect)
    return None if due is None else max(LATE_SECONDS, due)


def _renew_leases() -> None:
    runtime = process.runtime()
    requests = _requests()
    # The pool may notice a death late (5 s and more after a lost connection), and would hold the claim that long.
    for request in [request for request in requests.values() if _died(request.worker_pid)]:
        request.report_dead()
        del requests[request.id]
    lost = runtime.store.leases.renew(process.worker_name(), list(requests), runtime.settings.lease_seconds)
    for agent_id in lost:
        if stop_agent(agent_id):
            log.warning("agent.lost", agent_id=agent_id)


def _died(pid: int | None) -> bool:
    """Whether a pool process has died. The pool still has to collect it."""
    if not pid or pid == os.getpid():
        return False
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Announcing:
    """Sends heartbeats, and logs each new lack of this worker once, as an error."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def __call__(self) -> None:
        heartbeat.announce()
        lacks = dict(heartbeat.has().lacks)
        for model, why in lacks.items() - self._told.items():
            log.error("worker.unfit", model=model, why=why, effect="agents that need it are left to other workers")
        if self._told and not lacks:
            log.info("worker.tries_again", models=", ".join(self._told))
        self._told = lacks


class Sweeper:
    """Rescues lost agents. Only one worker at a time does so; the others skip their turn.

    All of them know the end of the next lease and return then, because the worker that rescues may be the one that died.
    """

    def __init__(self) -> None:
        self._orphans_at = 0.0
        self._tell_stranded = Stranded()

    def __call__(self) -> float | None:
        """Rescue lost agents; returns the seconds until the next lease ends."""
        runtime = process.runtime()
        store, settings = runtime.store, runtime.settings
        if time.monotonic() >= self._orphans_at:
            self._orphans_at = time.monotonic() + ORPHAN_SWEEP_SECONDS
            kill_orphans(scratch_root(settings), partial(_is_alive, store))
        every = max(0.2, settings.sweep_seconds * 0.9)
        turn = store.leases.begin_sweep(process.worker_name(), every, settings.lease_seconds, settings.full_share)
        known_at = time.monotonic()
        carry_out(app, store, turn.effect)
        if turn.is_mine:
            self._look(every)
        return None if turn.next_end is None else max(0.0, known_at + turn.next_end + LATE_SECONDS - time.monotonic())

    def _look(self, every: float) -> None:
        runtime = process.runtime()
        store, settings = runtime.store, runtime.settings
        rescue = store.leases.rescue(
            max_deaths=settings.max_deaths,
            outbox_age_seconds=OUTBOX_AGE_SECONDS,
            begun_within=longest_gap(every, settings.lease_seconds),
            queued=list_queued(store, settings.key_prefix) if store.leases.may_have_lost(OUTBOX_AGE_SECONDS) else (),
        )
        for agent_id in rescue.rescued:
            log.warning("agent.rescued", agent_id=agent_id, why="its lease ran out")
        for agent_id in rescue.quarantined:
            log.error("agent.quarantined", agent_id=agent_id)
        carry_out(app, store, rescue)
        # Work left by dead or slower callers. They and this sweep may work on the same jobs.
        until = time.monotonic() + settings.sweep_seconds
        for job_id in store.jobs.unsettled():
            settle(app, store, job_id, until=until)
        self._tell_stranded(store)


def _is_alive(store: Store, agent_id: str) -> bool:
    [record] = store.agents.find([agent_id])
    return record is not None and not record.ended
