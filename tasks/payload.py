"""The Celery message: a wake-up for one agent, checked when it is sent and again when it arrives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swarm.errors import PayloadRefused
from swarm.store.values import Hint

PAYLOAD_VERSION = 1
_ID = r"^agent-[0-9a-f]{16}$"


class Payload(BaseModel):
    """What a segment needs to begin. It names the agent; what the agent is and may do is read from its record.

    `depth` and `max_depth` travel along for people and routing. A message whose values differ from the record is forged
    or broken and is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    v: Literal[1] = 1
    agent: str = Field(pattern=_ID)
    job: str = Field(pattern=r"^job-[0-9a-f]{16}$")
    parent: str | None = Field(default=None, pattern=_ID)
    depth: int = Field(ge=0, le=64)
    max_depth: int = Field(ge=0, le=64)
    definition: str = Field(max_length=64)

    def told(self) -> list[str]:
        """What it says of its agent, as the step that claims it compares that with the record."""
        return [self.job, self.parent or "", str(self.depth), self.definition, str(self.max_depth)]


def read_payload(raw: object, *, task_id: str) -> Payload:
    """Validate a received payload. Raises `PayloadRefused` saying which field is wrong."""
    if not isinstance(raw, Mapping):
        raise PayloadRefused(
            f"task {task_id}: the payload is a {type(raw).__name__}, not an object; was it sent by something else?"
        )
    if raw.get("v") != PAYLOAD_VERSION:
        raise PayloadRefused(
            f"task {task_id}: payload version {raw.get('v')!r} is not {PAYLOAD_VERSION}; run the same version of swarm everywhere"
        )
    try:
        payload = Payload.model_validate(dict(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PayloadRefused(f"task {task_id}: payload field {where!r}: {first['msg']}") from error
    if payload.agent != task_id:
        raise PayloadRefused(f"task {task_id}: the payload is for {payload.agent}; an agent's id is its task id")
    return payload


def check_against_record(payload: Payload, hint: Hint) -> None:
    """Raise `PayloadRefused` when the message contradicts the agent's record."""
    for name in ("job", "parent", "depth", "definition", "max_depth"):
        told, kept = getattr(payload, name), getattr(hint, name)
        if told != kept:
            raise PayloadRefused(
                f"task {payload.agent}: {name} is {told!r} in the message but {kept!r} in the record; refused"
            )
