"""The Celery application. Its settings are computed on Celery's first access, not at import."""

from __future__ import annotations

from typing import Any

from celery import Celery

from swarm.core.settings import Settings, load_settings
from swarm.store.connection import (
    WORKER_TIMEOUT_SECONDS,
    broker_transport_options,
    broker_url,
    keepalive_options,
    redis_url,
)


def celery_settings(settings: Settings) -> dict[str, Any]:
    """Celery settings that our guarantees need, with reasons."""
    url = redis_url(settings)
    return {
        "broker_url": broker_url(url),
        "broker_transport_options": {
            # One list: the order is decided before a message exists.
            "priority_steps": [0],
            # Detects a silently closed connection; the consumer itself asks once a second.
            "socket_keepalive": True,
            "socket_keepalive_options": keepalive_options(),
            "socket_timeout": WORKER_TIMEOUT_SECONDS,
            "socket_connect_timeout": WORKER_TIMEOUT_SECONDS,
            "health_check_interval": 5,
            # A taken message is recorded nowhere: the outbox offers its agent until a worker claims it.
            "ack_emulation": False,
            **broker_transport_options(url),
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_default_queue": settings.key_prefix,
        # Broadcasts and events stay in this swarm: another one may share the database.
        "control_exchange": settings.key_prefix,
        "event_exchange": f"{settings.key_prefix}.events",
        "event_queue_prefix": f"{settings.key_prefix}.events",
        # JSON only: a payload is data, never code.
        "task_serializer": "json",
        "accept_content": ["json"],
        # The agents' records hold results, states and retries.
        "result_backend": None,
        "task_ignore_result": True,
        # Late acknowledgement would redeliver agents that still run; rescue covers what early acknowledgement loses.
        "task_acks_late": False,
        # A worker takes only agents that it can start: none waits behind a busy process while another is idle.
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        # Guards against a hung process; the agent itself returns to the queue long before.
        "task_time_limit": settings.hard_limit_seconds,
        "worker_consumer": "swarm.tasks.consumer:Consumer",
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": True,
        "task_remote_tracebacks": False,
    }


_OURS = {"amqp": "swarm.tasks.connection:SparingAMQP", "control": "swarm.tasks.connection:PrefixedControl"}

# A worker makes it the current application. A program with its own application keeps that one.
app = Celery("swarm", set_as_current=False, include=["swarm.tasks.agent_task", "swarm.tasks.worker"], **_OURS)
app.add_defaults(lambda: celery_settings(load_settings()))


def make_app(settings: Settings) -> Celery:
    """Make an application for a program that sends to this swarm and runs no agents itself."""
    sender = Celery("swarm-client", set_as_current=False, **_OURS)
    sender.add_defaults(lambda: celery_settings(settings))
    return sender
