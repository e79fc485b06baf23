"""Run the exporter from its start to its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from swarm.core.log import EventLog, begin_logging
from swarm.core.settings import Settings, http_address
from swarm.store.connection import connect
from swarm.store.outage import RedisError
from swarm.store.store import Store
from swarm.telemetry.journal_reader import JournalReader
from swarm.telemetry.metrics import read_metrics

if TYPE_CHECKING:
    from swarm.telemetry.otlp import Collector

log = EventLog("swarm.telemetry")
METRICS_SECONDS = 30.0
PROVIDERS = {"anthropic": "anthropic", "bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai"}
"""Provider → its name in the conventions."""


def open_collector(endpoint: str | None) -> Collector:
    """Open the receiver of spans and metrics. Raises `ConfigurationError` if its packages are missing."""
    from swarm.telemetry.otlp import Collector

    return Collector(endpoint)


def make_reader(settings: Settings, collector: Collector | None) -> tuple[JournalReader, Store]:
    """Make a reader of this swarm's journals, and the store that it reads."""
    store = Store(connect(settings), settings.key_prefix)
    return JournalReader(
        store, PROVIDERS[settings.provider], None if collector is None else collector.take_spans
    ), store


def read_once(settings: Settings, collector: Collector | None) -> bool:
    """Read and send everything new; return whether this reader did, and all was received. Raises `redis.RedisError`."""
    reader, store = make_reader(settings, collector)
    try:
        taken = reader.read()
    finally:
        reader.leave()
    return (collector is None or collector.take_metrics(read_metrics(store.keyspace), time.time())) and taken


def run(
    settings: Settings, collector: Collector | None, host: str, port: int, every: float, told: Callable[[str], None]
) -> None:
    """Read periodically and serve figures, until a signal. Raises `ConfigurationError`."""
    from swarm.telemetry.prometheus import serve

    begin_logging(settings.log_format)
    reader, store = make_reader(settings, collector)
    told(f"{http_address(host, serve(host, port, lambda: read_metrics(store.keyspace)))}/metrics")
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    began, sent = time.time(), 0.0
    while not over.is_set():
        try:
            reader.read()
            if collector is not None and time.monotonic() - sent >= METRICS_SECONDS:
                sent = time.monotonic()
                collector.take_metrics(read_metrics(store.keyspace), began)
        except RedisError as error:
            log.warning("telemetry.redis_away", error=error)
        over.wait(every)
    with suppress(RedisError):
        reader.leave()
