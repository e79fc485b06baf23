"""A job as a step of another Celery application's canvas, without a waiting process among its workers.

    app = Celery("shop", broker=…, backend=…)
    install(app, broker="shop")
    chain(fetch.s(42), swarm.signature("Sum up:\\n{result}", workspace="/srv/shop"), mail.s()).delay()

The step's task puts a job on the swarm's queue and releases its process, in the state `SWARM`. The job carries the step's own
message: its id, the rest of its chain, its group and chord, callbacks and errbacks. The swarm's workers publish that message again
when the job has ended. Then the task returns the job's answer or raises `JobFailed`, and Celery continues as after any other task.

Guarantees: a step makes one job, however often its message is delivered, because the job's id is derived from the step's. A message
lost on the way back is published again until the step has its result. A step with a result is not run again. As with any Celery task
that is delivered twice, a step's successors may be sent twice under the same task id. This happens if the worker dies between
sending them and storing the result.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from celery import Celery, Task, bootsteps, signals, states
from celery import signature as celery_signature
from celery.backends.base import DisabledBackend
from celery.canvas import Signature
from celery.exceptions import Ignore
from celery.worker import state as worker_state

from swarm.client.order import Order, StepOrder, options_given, ordered, read_order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Swarm
from swarm.core.errors import (
    ConfigurationError,
    InvalidOption,
    JobFailed,
    JobLost,
    RedisUnavailable,
    SwarmError,
    UnknownAgent,
)
from swarm.core.ids import job_id_for, root_agent_id
from swarm.core.log import EventLog
from swarm.core.records import JobView
from swarm.core.settings import Settings
from swarm.store.callbacks import Callbacks
from swarm.store.outage import REDIS_ERRORS, RedisError

log = EventLog("swarm.canvas")
TASK_NAME = "swarm.job"
WAITING = "SWARM"
"""The state of a step whose job has not ended; its result's `info` is `{"job_id": …}` then."""
PLACE = "{result}"
"""The part of a prompt that the previous step's result replaces."""
_REVOKED_SECONDS = 60.0


@ordered(StepOrder)
def signature(order: StepOrder) -> Signature:
    """A job as a step of a canvas. The options are the fields of `StepOrder`; the workspace must be an absolute path.

    The previous step's result replaces each `{result}` in the prompt: text unchanged, anything else as JSON. If the prompt has no
    `{result}`, the result is appended; an immutable signature (`.set(immutable=True)`) gets none. The step's result is the job's text,
    or its data with a `result_schema`. Raises `ConfigurationError` for options that cannot be used.
    """
    given = options_given(order) | {"workspace": str(order.workspace)}
    if not Path(given["workspace"]).is_absolute():
        raise InvalidOption("workspace", "workspace must be an absolute path: the step runs on another process's host")
    if order.limits is not None:
        given["limits"] = order.limits.model_dump(mode="json", exclude_unset=True)
    return celery_signature(TASK_NAME, kwargs=given)


def job_id_of(task_id: str) -> str:
    """The id of a step's job; `task_id` is the `id` of its `AsyncResult`."""
    return job_id_for(_key_of(task_id))


def _key_of(task_id: str) -> str:
    return f"celery/{task_id}"


def install(app: Celery, *, broker: str, settings: Settings | None = None) -> Task:
    """Have an application's workers run steps that are jobs; returns the task.

    `broker` is this application's name in the `SWARM_BROKERS` of the swarm's workers; `settings` selects the swarm (default: the
    environment's). Raises `ConfigurationError` if the application does not accept JSON, in which steps come back.
    """
    if not {"json", "application/json"} & set(app.conf.accept_content):
        raise ConfigurationError("install: the application's accept_content must have json, in which steps come back")

    @cache
    def swarm() -> Swarm:
        # Made on first use: a forked process must not use its parent's connection.
        return Swarm(settings)

    class JobStep(Task):  # type: ignore[misc]
        """The base of the step's task; a step with a result needs no further message."""

        abstract = True

        def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
            _settle(swarm(), task_id)

        def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
            _settle(swarm(), task_id)

    @app.task(  # type: ignore[untyped-decorator]
        bind=True,
        base=JobStep,
        name=TASK_NAME,
        # The task is short and repeatable, so a worker that dies in it must not lose it.
        acks_late=True,
        reject_on_worker_lost=True,
        autoretry_for=(RedisUnavailable, *REDIS_ERRORS),
        max_retries=None,
        retry_backoff=True,
        retry_backoff_max=60,
    )
    def run_job(self: Task, *before: Any, **given: Any) -> Any:
        with swarm().store.explained():
            return _run(self, swarm(), broker, before, given)

    app.steps["worker"].add(_revoking(swarm))

    @signals.task_revoked.connect(sender=run_job, weak=False)  # type: ignore[untyped-decorator]
    def settle_revoked(request: Any = None, **_: Any) -> None:
        _settle(swarm(), request.id)

    return run_job


def _run(task: Task, swarm: Swarm, broker: str, before: tuple[Any, ...], given: dict[str, Any]) -> Any:
    step_id = str(task.request.id)
    job_id, began = job_id_of(step_id), given.pop("began", False)
    try:
        view = swarm.store.jobs.get(job_id)
        if _has_result(task, step_id):
            _settle(swarm, step_id)
            raise Ignore
    except UnknownAgent:
        if began:
            raise JobLost(job_id) from None
        view = _start(task, swarm, broker, before, given)
    if task.request.is_eager:
        view = swarm.job(job_id).wait()
    elif not view.ended and not _has_result(task, step_id):
        # The job exists by now, so that a worker's death here leaves no step that waits for none.
        task.update_state(state=WAITING, meta={"job_id": job_id})
        # An end that was reported before the state was set has been overwritten by it.
        view = swarm.job(job_id).view()
    if not view.ended:
        raise Ignore
    if view.state != "completed":
        raise JobFailed(job_id, view.state, view.reason)
    return view.text if given.get("result_schema") is None else view.data


def _start(task: Task, swarm: Swarm, broker: str, before: tuple[Any, ...], given: Mapping[str, Any]) -> JobView:
    request, order = task.request, dict(given)
    if request.id is None:
        raise ConfigurationError("swarm.job runs as a step of a canvas; in a program use Swarm().run")
    order["prompt"] = fill(str(order.get("prompt", "")), before)
    if not request.is_eager:
        order |= {"on_end": _message_of(task, given), "broker": broker}
    order["idempotency_key"] = _key_of(request.id)
    prepared = prepare_order(read_order(Order, **order), swarm.settings)
    if prepared.callback is not None:
        prepared = replace(prepared, callback=prepared.callback.model_copy(update={"confirmed": True}))
    return swarm.place(prepared).view()


def _message_of(task: Task, given: Mapping[str, Any]) -> Signature:
    """The step's message, to be published again under its id with everything that follows it."""
    message = task.signature_from_request(args=(), kwargs={**given, "began": True})
    # The step began in time, so its message may arrive late.
    message.options.pop("expires", None)
    return message.set(ignore_result=True) if task.request.ignore_result else message


def fill(prompt: str, before: tuple[Any, ...]) -> str:
    """Insert the previous step's result into the prompt."""
    if not before:
        return prompt
    [result] = before
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return prompt.replace(PLACE, text) if PLACE in prompt else f"{prompt}\n\n{text}"


def _has_result(task: Task, step_id: str) -> bool:
    return not isinstance(task.backend, DisabledBackend) and task.AsyncResult(step_id).state in states.READY_STATES


def _settle(swarm: Swarm, step_id: str) -> None:
    try:
        Callbacks(swarm.store.keyspace).settle(job_id_of(step_id))
    except RedisError as error:
        # The message arrives again, finds the result, and is settled.
        log.warning("step.not_settled", task_id=step_id, error=error)


def _revoking(swarm: Any) -> type:
    class Revoking(bootsteps.StartStopStep):  # type: ignore[misc]
        """Cancel the jobs of revoked steps. Celery only records their ids, because no process runs them."""

        def __init__(self, worker: Any, **_: Any) -> None:
            self._over = threading.Event()
            self._seen: dict[str, float] = {}

        def start(self, worker: Any) -> None:
            threading.Thread(target=self._loop, name="swarm-revoked", daemon=True).start()

        def stop(self, worker: Any) -> None:
            self._over.set()

        def _loop(self) -> None:
            while not self._over.wait(0.5):
                try:
                    self._look()
                except (RedisError, SwarmError, RuntimeError) as error:
                    # The ids may change during the read; the next round reads them again.
                    log.warning("revoked.failed", error=error)

        def _look(self) -> None:
            now, revoked = time.monotonic(), list(worker_state.revoked)
            self._seen = {step: self._seen.get(step, now) for step in revoked}
            for step, since in self._seen.items():
                # A step that is just starting has no job yet.
                if now - since < _REVOKED_SECONDS and cancel_step(swarm(), step):
                    self._seen[step] = -math.inf

    return Revoking


def cancel_step(swarm: Swarm, task_id: str) -> bool:
    """Cancel a step's job; False if it has none yet."""
    try:
        swarm.cancel(root_agent_id(job_id_of(task_id)), "the canvas step of this job was revoked", by="canvas")
    except UnknownAgent:
        return False
    return True
