"""Requests and replies of a vendor's format, as tests write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarm.models import ModelRequest, Reply
from swarm.models.codecs import codec
from swarm.models.message_encoder import MessageEncoder
from swarm.models.reply import ReplyBuilder
from swarm.models.vendors import Vendor

NAME = "ours:m-1"
LOOK = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {}}}}
GO = {"role": "user", "content": "go"}
THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "s"}


def vendor(wire: str) -> Vendor:
    """A vendor that is asked in this format."""
    return Vendor("ours", "https://llm.example.org/v1", "OURS_KEY", wire=wire)


def encode_as(
    wire: str, messages: list[dict[str, Any]], encoder: MessageEncoder | None = None, **fields: Any
) -> dict[str, Any]:
    """Encode a request for the model, or with another encoder."""
    request = ModelRequest(model=NAME, system=fields.pop("system", ""), messages=messages, **fields)
    encoder = encoder or codec(wire).encoder(vendor(wire), "m-1")
    body: dict[str, Any] = json.loads(encoder.encode(request, max_output=9_000))
    return body


def read_as(wire: str, documents: Sequence[dict[str, Any]]) -> Reply | None:
    """Read a stream whose last bytes did not say that it ended."""
    reader, builder = codec(wire).reader(NAME), ReplyBuilder()
    for document in documents:
        for event in reader.read(document):
            builder.add(event)
    for event in reader.end(said=False):
        builder.add(event)
    return builder.finish("req_1")


def text(said: str) -> dict[str, Any]:
    """A text."""
    return {"type": "text", "text": said}


def use(call_id: str = "c1", **given: Any) -> dict[str, Any]:
    """A call."""
    return {"type": "tool_use", "id": call_id, "name": "Look", "input": given}
