"""The Celery application. Its settings are computed when Celery first asks for them, not at import."""

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
    """How Celery must run for our guarantees to hold; the reasons are beside the settings."""
    url = redis_url(settings)
    return {
        "broker_url": broker_url(url),
        "broker_transport_options": {
            # One list: who is next is decided before there is a message.
            "priority_steps": [0],
            # A silent end of the connection must be noticed; the consumer itself asks once a second.
            "socket_keepalive": True,
            "socket_keepalive_options": keepalive_options(),
            "socket_timeout": WORKER_TIMEOUT_SECONDS,
            "socket_connect_timeout": WORKER_TIMEOUT_SECONDS,
            "health_check_interval": 5,
            # Messages are acknowledged before they run, so this never redelivers a running agent: only what a worker took and died
            # with comes back, and is refused.
            "visibility_timeout": 300,
            # Kombu's own names are the same for all who use a database.
            "unacked_key": f"{settings.key_prefix}:unacked",
            "unacked_index_key": f"{settings.key_prefix}:unacked_index",
            "unacked_mutex_key": f"{settings.key_prefix}:unacked_mutex",
            **broker_transport_options(url),
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_default_queue": settings.key_prefix,
        # What goes to all workers, and what they tell, stays in this swarm: another one may share the database.
        "control_exchange": settings.key_prefix,
        "event_exchange": f"{settings.key_prefix}.events",
        # JSON only: a payload is data, never code.
        "task_serializer": "json",
        "accept_content": ["json"],
        # Results, states and retries live in the agents' records.
        "result_backend": None,
        "task_ignore_result": True,
        # Late acknowledgement would redeliver agents that still run; rescue covers what early acknowledgement loses.
        "task_acks_late": False,
        # A worker fetches only what it can start: no agent waits behind a busy process while another is idle.
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        # The guard against a hung process; the agent itself goes back to the queue long before.
        "task_time_limit": settings.hard_limit_seconds,
        "worker_consumer": "swarm.tasks.consumer:Consumer",
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": True,
        "task_remote_tracebacks": False,
    }


_AMQP = "swarm.tasks.connection:SparingAMQP"

# A worker makes it the current application; in a program that has one of its own, that one stays it.
app = Celery("swarm", amqp=_AMQP, set_as_current=False, include=["swarm.tasks.agent_task", "swarm.tasks.worker"])
app.add_defaults(lambda: celery_settings(load_settings()))


def make_app(settings: Settings) -> Celery:
    """An application for a program that sends to the swarm of these settings and runs no agents itself."""
    sender = Celery("swarm-client", set_as_current=False, amqp=_AMQP)
    sender.add_defaults(lambda: celery_settings(settings))
    return sender
