"""Encodes each part of a request once: shared prefixes, and the conversation as it grows.

The result equals, as JSON, the body of `build_request`. A turn encodes the blocks added since the last request, and blocks whose mark
has moved; it copies bytes for the rest. Tests check this with the counter `encoded_parts`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from swarm.models import Block, ModelRequest
from swarm.models.request import bounded_output, build_request, fit, is_silent, marks_of, sendable, summary_order
from swarm.models.request import marked as with_mark

_encode_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_KEPT_PREFIXES = 64

encoded_parts = 0
"""How many blocks and prefixes this process has encoded."""

_tools: dict[int, tuple[list[dict[str, Any]], bytes]] = {}
"""Tools by identity: an agent's never change, and a process shares equal tools among agents."""
_named: dict[tuple[str, str, int], tuple[bytes, str]] = {}
_heads: dict[tuple[str, int], tuple[list[dict[str, Any]], bytes]] = {}


def _encode(part: Any) -> bytes:
    global encoded_parts
    encoded_parts += 1
    return _encode_text(part).encode()


def encode_tools(tools: list[dict[str, Any]]) -> bytes:
    """Encode tool schemas as a request holds them. The list must not change afterwards."""
    if not tools:
        return b"[]"
    known = _tools.get(id(tools))
    if known is None or known[0] is not tools:
        if len(_tools) >= _KEPT_PREFIXES:
            _tools.clear()
        known = _tools[id(tools)] = (tools, _encode(tools))
    return known[1]


def describe_prefix(model: str, system: str, tools: list[dict[str, Any]], also: str) -> tuple[str, int]:
    """Name a prefix as the prompt cache distinguishes it, with `also`; and its size in bytes."""
    head = _head(ModelRequest(model=model, system=system, messages=[], tools=tools))
    key = (model, also, id(head))
    known = _named.get(key)
    if known is None or known[0] is not head:
        if len(_named) >= _KEPT_PREFIXES:
            _named.clear()
        digest = hashlib.sha256(b"\0".join((model.encode(), also.encode(), head))).hexdigest()[:32]
        known = _named[key] = (head, digest)
    return known[1], len(head)


class Encoder:
    """Encodes the requests of one conversation, whose messages only grow at the end of one list.

    Another list starts over. Blocks must not change once they were sent.
    """

    def __init__(self) -> None:
        self._begin([])

    def encode(self, request: ModelRequest, *, max_output: int) -> bytes:
        """Encode a streaming request's body. Raises `ValueError` or `TypeError` for invalid JSON."""
        if request.facts.lacks:
            # Requests of the few servers that refuse a part are made again each time.
            return _encode(fit({**_whole(request, max_output), "stream": True}, request.facts))
        if request.messages is not self._messages:
            self._begin(request.messages)
        return b"".join(
            (
                b'{"model":%s,"max_tokens":%d,'
                % (_encode_text(request.model).encode(), bounded_output(request, max_output)),
                _head(request),
                b"" if request.tools_allowed or not request.tools else b'"tool_choice":{"type":"none"},',
                b""
                if request.effort is None
                else b'"output_config":{"effort":%s},' % _encode_text(request.effort).encode(),
                b""
                if request.summarize is None
                else b'"compaction":%s,' % _encode_text(summary_order(request.summarize)).encode(),
                b'"stream":true,"messages":[',
                *self._conversation(),
                b"]}",
            )
        )

    def _begin(self, messages: list[dict[str, Any]]) -> None:
        self._messages = messages
        self._settled = bytearray()
        """The encoded messages that can get no more marks."""
        self._count = 0
        self._blocks: dict[tuple[int, bool], tuple[Block, bytes]] = {}
        """Blocks of all later messages, by identity and whether they are marked."""

    def _conversation(self) -> list[bytes | bytearray]:
        messages = [sendable(message) for message in self._messages[self._count :]]
        marks, has_earlier = marks_of(messages)
        parts = [
            b"" if is_silent(message) else self._message(message, {block for place, block in marks if place == at})
            for at, message in enumerate(messages)
        ]
        if has_earlier:
            # Later requests mark nothing before what this one marks.
            settled = min(place for place, _ in marks)
            self._settle(parts[:settled])
            parts = parts[settled:]
        joined = b",".join(filter(None, parts))
        return [self._settled, b"," if self._settled and joined else b"", joined]

    def _message(self, message: dict[str, Any], marked: set[int]) -> bytes:
        blocks = [self._block(block, marked=place in marked) for place, block in enumerate(message["content"])]
        return b'{"role":%s,"content":[%s]}' % (_encode_text(message["role"]).encode(), b",".join(blocks))

    def _block(self, block: Block, *, marked: bool) -> bytes:
        key = (id(block), marked)
        if key not in self._blocks:
            self._blocks[key] = (block, _encode(with_mark(block) if marked else block))
        return self._blocks[key][1]

    def _settle(self, parts: list[bytes]) -> None:
        if not parts:
            return
        joined = b",".join(filter(None, parts))
        if self._settled and joined:
            self._settled += b","
        self._settled += joined
        self._count += len(parts)
        later = {id(block) for message in self._messages[self._count :] for block in message["content"]}
        self._blocks = {key: known for key, known in self._blocks.items() if key[0] in later}


def _whole(request: ModelRequest, max_output: int) -> dict[str, Any]:
    body = build_request(request, max_output=max_output)
    return body if request.summarize is None else {**body, "compaction": summary_order(request.summarize)}


def _head(request: ModelRequest) -> bytes:
    """Tools and system prompt, with a mark at the end."""
    key = (request.system, id(request.tools) if request.tools else 0)
    known = _heads.get(key)
    if known is None or (request.tools and known[0] is not request.tools):
        if len(_heads) >= _KEPT_PREFIXES:
            _heads.clear()
        known = _heads[key] = (request.tools, _make_head(request))
    return known[1]


def _make_head(request: ModelRequest) -> bytes:
    system = bool(request.system.strip())
    head = b""
    if request.tools:
        # Without a system prompt the tools need a mark of their own.
        tools = encode_tools(request.tools) if system else _encode([*request.tools[:-1], with_mark(request.tools[-1])])
        head += b'"tools":%s,' % tools
    if system:
        head += b'"system":%s,' % _encode([with_mark({"type": "text", "text": request.system})])
    return head
