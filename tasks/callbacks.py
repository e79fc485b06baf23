"""Publishes callbacks of ended jobs on the brokers of other applications."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from celery import Celery
from celery.canvas import Signature, _chain, maybe_signature
from kombu.utils.json import dumps

from swarm.core.errors import ConfigurationError
from swarm.core.ids import callback_id
from swarm.core.log import EventLog
from swarm.core.records import JobView
from swarm.store.callbacks import MAX_CALLBACK_BYTES, NAME_BROKER, Callback, Callbacks, DueCallback, explain_stranded
from swarm.store.store import Store

log = EventLog("swarm.callbacks")
PUBLISH_SECONDS = 0.5
"""Interval between looks for due callbacks."""
_AGAIN_SECONDS = 5.0
_IN_URL = ("global_keyprefix", "master_name")
"""Transport options that a message needs to reach the application's queue."""
_PLACES = ("global_keyprefix", "sep", "priority_steps")
"""Options that the application itself sends with a callback."""
_TIMEOUT_SECONDS = 10.0


def read_callback(given: Mapping[str, Any], broker: str, job_id: str) -> Callback:
    """Convert a signature to a callback: JSON with its queue, its application's places, and ids derived from the job.

    Raises `ConfigurationError` for one that cannot be published from elsewhere.
    """
    signature = maybe_signature(given)
    steps = list(signature.tasks) if isinstance(signature, _chain) else [signature]
    if any(step.get("subtask_type") for step in steps):
        raise ConfigurationError(
            "on_end: a group or a chord needs the result backend of its application to be started; "
            "give the signature of a task that starts it, or a chain of tasks"
        )
    kept = [_settle(step, callback_id(job_id, place)) for place, step in enumerate(steps)]
    first = kept[0]
    if kept[1:]:
        first["options"]["chain"] = kept[:0:-1]
    try:
        document = dumps(first)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"on_end: the signature of {first['task']} is no JSON: {error}") from None
    if len(document) > MAX_CALLBACK_BYTES:
        raise ConfigurationError(
            f"the message of {first['task']}, with all that follows it, has {len(document) // 1024} KiB, more than "
            f"{MAX_CALLBACK_BYTES // 1024} KiB: pass references to large values"
        )
    options = signature.app.conf.broker_transport_options
    places = {name: options[name] for name in _PLACES if name in options}
    return Callback(broker=broker, signature=json.loads(document), places=places)


def _settle(step: Signature, task_id: str) -> dict[str, Any]:
    options = {"task_id": task_id, **step.options}
    if not options.get("queue") and not options.get("routing_key"):
        # Only its own application knows the routes of its tasks.
        options["queue"] = step.app.amqp.router.route(options, step.task, step.args, step.kwargs)["queue"]
    queue = options.pop("queue", None)
    if queue is not None:
        options["queue"] = getattr(queue, "name", queue)
    plain = {"task": step.task, "args": list(step.args), "kwargs": dict(step.kwargs), "options": options}
    return plain | {"subtask_type": None, "immutable": step.immutable}


def tell_end(view: JobView) -> dict[str, Any]:
    """The first argument of a callback: the ended job."""
    return view.model_dump(mode="json", include={"id", "state", "text", "data", "reason"})


class Publishing:
    """Publishes due callbacks on one broker. Several workers may; each callback goes to one."""

    def __init__(self, store: Store, broker: str, url: str) -> None:
        self._store, self._broker = store, broker
        self._callbacks = Callbacks(store.keyspace)
        self._address, self._options = split_options(url)
        self._apps: dict[str, Celery] = {}

    def __call__(self) -> None:
        for due in self._callbacks.due(self._broker):
            try:
                self._publish(due)
            except Exception as error:
                # Connection errors have many types.
                log.warning("callback.put_off", job_id=due.job_id, broker=self._broker, error=repr(error))
                self._callbacks.put_off(due.job_id, _AGAIN_SECONDS)

    def _app_for(self, places: Mapping[str, Any]) -> Celery:
        """The application that publishes to these places; few differ."""
        key = dumps(places)
        if key not in self._apps:
            settings = _settings(self._address, {**places, **self._options})
            name = f"swarm-to-{self._broker}"
            self._apps[key] = Celery(name, broker=self._address, set_as_current=False, changes=settings)
        return self._apps[key]

    def _publish(self, due: DueCallback) -> None:
        signature = maybe_signature(dict(due.callback.signature), app=self._app_for(due.callback.places))
        told = due.callback.confirmed or signature.immutable
        arguments = () if told else (tell_end(self._store.jobs.get(due.job_id)),)
        # To the queue by its name, undeclared: its application decides on its bindings and arguments. Where a queue must exist, a missing
        # one is an error (`mandatory`), and the callback is put off until its application has declared it.
        signature.apply_async(arguments, declare=[], mandatory=True, add_to_parent=False)
        log.info("callback.published", job_id=due.job_id, broker=self._broker, task=signature.task)
        if not due.callback.confirmed:
            self._callbacks.settle(due.job_id)


class Stranded:
    """Logs callbacks that no worker can publish, once until that changes."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, store: Store) -> None:
        found = Callbacks(store.keyspace).stranded()
        for broker in found.keys() - self._told:
            log.error("callbacks.stranded", why=explain_stranded(broker, found[broker]), remedy=NAME_BROKER)
        self._told = set(found)


def split_options(url: str) -> tuple[str, dict[str, str]]:
    """Split a broker's URL, `redis://host/1?global_keyprefix=shop:`, into address and options."""
    address, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    options = {name: value for name, value in given if name in _IN_URL}
    if not options:
        return url, {}
    others = urlencode([pair for pair in given if pair[0] not in _IN_URL])
    return f"{address}?{others}" if others else address, options


def _settings(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    timeouts = {"socket_timeout": _TIMEOUT_SECONDS, "socket_connect_timeout": _TIMEOUT_SECONDS}
    bounds: dict[str, Any] = timeouts if url.startswith(("redis", "rediss", "sentinel")) else {}
    if url.startswith(("amqp", "pyamqp")):
        bounds = {"confirm_publish": True}
    return {
        "broker_transport_options": {**bounds, **options},
        "broker_connection_timeout": _TIMEOUT_SECONDS,
        # Unsent callbacks become due again; nothing waits for them.
        "task_publish_retry": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_backend": None,
    }
