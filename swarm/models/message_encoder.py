"""The common part of all encoders of vendors' formats: each message is encoded once, and a model gets its own items back."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from swarm.models import Block, ModelRequest
from swarm.models.request import holds_summary
from swarm.models.vendors import Vendor

encode_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
EFFORTS = {"xhigh": "high", "max": "high"}
"""Levels of effort that not every server knows."""


class MessageEncoder(ABC):
    """Encodes the requests of one conversation for one model of a vendor."""

    wire: ClassVar[str]
    """The name of the format."""

    def __init__(self, vendor: Vendor, model: str) -> None:
        self._vendor, self._model = vendor, model
        self._name = f"{vendor.name}:{model}"
        self._encoded_tools: tuple[Any, bytes] | None = None
        self._encoded_system: tuple[str, bytes] = ("", b"")
        self._messages: list[dict[str, Any]] = []
        self._count = 0
        """The number of settled messages, which cannot grow any more."""
        self._settled = bytearray()
        """Their encoded form."""
        self._first = b""
        """The encoded first message."""

    @abstractmethod
    def encode(self, request: ModelRequest, *, max_output: int) -> bytes:
        """Encode a streaming request's body. Raises `ValueError` or `TypeError` for invalid JSON."""

    @abstractmethod
    def _message(self, role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        """Yield the format's own messages or items for one message."""

    @abstractmethod
    def _tool_list(self, tools: list[dict[str, Any]]) -> Any:
        """Return the format's own list of the tools, which are never empty."""

    def _tools(self, request: ModelRequest) -> bytes:
        """The field `tools` with a comma before it; empty without tools."""
        if self._encoded_tools is None or self._encoded_tools[0] is not request.tools:
            # The servers of Anthropic carry out some tools themselves; those have no schema.
            tools = [tool for tool in request.tools if "input_schema" in tool]
            made = b',"tools":%s' % encode(self._tool_list(tools)) if tools else b""
            self._encoded_tools = (request.tools, made)
        return self._encoded_tools[1]

    def _system(self, request: ModelRequest) -> bytes:
        """The system prompt's text; empty without one."""
        if self._encoded_system[0] != request.system:
            self._encoded_system = (request.system, encode(request.system) if request.system.strip() else b"")
        return self._encoded_system[1]

    def _conversation(self, request: ModelRequest) -> bytes:
        """Return the encoded messages, with commas between them. Only the last one of a list may still grow."""
        if request.messages is not self._messages:
            self._messages = request.messages
            self._encode_again()
        fresh = [
            b",".join(map(encode, self._message(_role_of(message), blocks_of(message["content"]))))
            for message in self._messages[self._count :]
        ]
        if not fresh:
            return bytes(self._settled)
        if self._count == 0:
            self._first = fresh[0]
        self._count += len(fresh) - 1
        for made in fresh[:-1]:
            if made:
                self._settled += b"," + made if self._settled else made
        return b",".join(filter(None, (self._settled, fresh[-1])))

    def _encode_again(self) -> None:
        """Encode all messages in the next request, as a new conversation."""
        self._count, self._settled = 0, bytearray()

    def _own(self, block: Block) -> Any:
        """The model's own form of a block that it made in this format; None for all other blocks."""
        kept = block.get("vendor")
        if kept is None or kept["name"] != self._name or kept.get("wire", "chat") != self.wire:
            return None
        return kept["item"]


def _role_of(message: dict[str, Any]) -> str:
    """The role of a message here: the summary of another vendor's server stands in a reply, and is the user's text for the model."""
    return "user" if holds_summary([message]) else str(message["role"])


def blocks_of(content: str | list[Block]) -> list[Block]:
    """Return a message's or result's content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def encode(value: Any) -> bytes:
    """Encode compact JSON."""
    return encode_text(value).encode()


def shorten_id(call_id: str, longest: int) -> str:
    """Return a call's id as a format allows it, the same for the call and its result."""
    if len(call_id) <= longest:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode()).hexdigest()[:32]


def describe_unreadable(block: Block) -> str:
    """Name a block for which a format has no place."""
    return f"(a part of the kind {block['type']}, which this model cannot read)"


def data_url(source: dict[str, Any]) -> str:
    """Return the address of an image or document, or its content as one."""
    return source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
