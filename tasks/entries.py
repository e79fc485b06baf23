"""Validates entries of the broker's queues: unreadable ones would end the worker.

Two checks protect two readers. `read_entry` checks for Kombu that an entry is a message; `check_wake_up` checks for Celery that the message
is an agent's wake-up. The store then decides whether that agent exists and is runnable.
"""

from __future__ import annotations

import base64
import re
from typing import Annotated, Any, Literal

from kombu.exceptions import KombuError
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from swarm.core.errors import PayloadRefused
from swarm.core.log import EventLog
from swarm.tasks.publish import ID_PATTERN, TASK_NAME

log = EventLog("swarm.queue")
MAX_BYTES = 1 << 20
"""Size limit of an entry. A wake-up has about 1 KiB; only stops of many agents have more."""


def _encodable(text: str) -> str:
    text.encode()  # JSON can hold half a character, which cannot be encoded
    return text


_Text = Annotated[str, AfterValidator(_encodable)]


class _EntryPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _ReplyAddress(_EntryPart):
    exchange: _Text
    routing_key: _Text


class _Properties(_EntryPart):
    delivery_tag: _Text
    delivery_info: _ReplyAddress
    body_encoding: Literal["base64"]


class Entry(_EntryPart):
    """A message as Kombu writes it. Only the fields named here are read before the body."""

    body: str
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    headers: dict[str, Any]
    properties: _Properties

    @field_validator("body")
    @classmethod
    def _is_base64(cls, body: str) -> str:
        base64.b64decode(body.encode(), validate=True)
        return body

    @field_validator("headers")
    @classmethod
    def _is_plain(cls, headers: dict[str, Any]) -> dict[str, Any]:
        if headers.get("compression"):
            raise ValueError("nothing here is compressed")
        return headers


class _Headers(_EntryPart):
    """Headers that Celery acts on before it passes a message to a pool process."""

    task: str = Field(pattern=f"^{re.escape(TASK_NAME)}$")
    id: str = Field(pattern=ID_PATTERN)
    root_id: _Text | None = None
    parent_id: _Text | None = None
    argsrepr: _Text | None = None
    kwargsrepr: _Text | None = None
    # A wake-up is for now, and for any worker.
    eta: None = None
    expires: None = None
    shadow: None = None
    stamped_headers: None = None
    timelimit: list[None] | None = Field(default=None, min_length=2, max_length=2)


class _WakeUp(_EntryPart):
    headers: _Headers
    body: tuple[list[Any], dict[str, Any], dict[str, Any]] = Field(strict=False)


def read_entry(raw: bytes) -> Entry:
    """Read an entry of a queue, or a broadcast. Raises `PayloadRefused` with the fault."""
    if len(raw) > MAX_BYTES:
        raise PayloadRefused(f"an entry of {len(raw)} bytes; at most {MAX_BYTES} are read")
    try:
        # Kombu's own reader decides whether an entry is valid.
        return Entry.model_validate(loads(bytes_to_str(raw)))
    except ValidationError as error:
        raise PayloadRefused(_say(error, "an entry that is no message of Celery's")) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise PayloadRefused(f"an entry that is no JSON: {type(error).__name__}") from error


def check_wake_up(message: Any) -> None:
    """Raise `PayloadRefused` for a message, as Kombu read it, that is no agent's wake-up."""
    try:
        _WakeUp.model_validate({"headers": message.headers, "body": message.payload})
    except ValidationError as error:
        raise PayloadRefused(_say(error, "a message that wakes no agent")) from error
    except KombuError as error:
        raise PayloadRefused(f"a message whose body is no JSON: {type(error).__name__}") from error


def log_refusal(error: PayloadRefused) -> None:
    """Log a refused message and the reason, without its content."""
    log.warning("message.refused", error=f"PayloadRefused({error})")


def _say(error: ValidationError, what: str) -> str:
    first = error.errors(include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{what}: {where or 'the whole'}: {first['msg']}; was it sent by something else?"
