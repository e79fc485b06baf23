"""Event-style logging: `agent.parked agent_id=… until=…`; never prompts, bodies or secrets.

Lines are text, or with `SWARM_LOG_FORMAT=json` a JSON document each, with the ids of the job, the agent and the trace concerned.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

LogFormat = Literal["text", "json"]
_TEXT = "[%(asctime)s: %(levelname)s] %(message)s"
_at_work_for: ContextVar[Mapping[str, Any]] = ContextVar("at_work_for", default=MappingProxyType({}))


@contextmanager
def at_work_for(**ids: Any) -> Iterator[None]:
    """Add these ids to the JSON lines of this thread."""
    before = _at_work_for.set(ids)
    try:
        yield
    finally:
        _at_work_for.reset(before)


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON, with a `message` for lines of other packages."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line."""
        written: tuple[str, dict[str, Any]] = getattr(record, "swarm_event", ("", {}))
        event, fields = written
        told: dict[str, Any] = {"event": event, **fields} if event else {"message": record.getMessage()}
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        about = {"time": when, "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps({**about, **_at_work_for.get(), **told}, default=str, ensure_ascii=False)


def shape_lines(logger: logging.Logger, form: LogFormat) -> None:
    """Use this form for the lines of a logger's handlers."""
    if form == "json":
        for handler in logger.handlers:
            handler.setFormatter(JsonFormatter())


def begin_logging(form: LogFormat) -> None:
    """Configure a process of ours to log to the standard error stream."""
    logging.basicConfig(level=logging.INFO, format=_TEXT)
    shape_lines(logging.getLogger(), form)


class EventLog:
    """A logger that writes one event per line; fields keep their order."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        """Log traffic, for somebody who searches for a fault."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log a transition."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a fault that was recovered from."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a fault that requires action."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join([event, *(f"{key}={_shown(value)}" for key, value in fields.items())])
            self._logger.log(level, text, extra={"swarm_event": (event, fields)})


def _shown(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return repr(text) if " " in text or not text else text
