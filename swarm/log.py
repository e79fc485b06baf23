"""Event-style logging: a name and fields, `agent.parked agent_id=… until=…`; never prompts, bodies or secrets."""

from __future__ import annotations

import logging
from typing import Any


class EventLog:
    """A logger that writes one event per line; fields keep their order."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        """Traffic: for somebody who is looking for a fault."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """A transition."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something went wrong and was recovered from."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Somebody must act."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, " ".join([event, *(f"{key}={_shown(value)}" for key, value in fields.items())]))


def _shown(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return repr(text) if " " in text or not text else text
