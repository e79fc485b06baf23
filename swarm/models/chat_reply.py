"""Reads replies of OpenAI's Chat Completions as events of the Messages API, which `ReplyBuilder` takes.

Source: https://platform.openai.com/docs/api-reference/chat-streaming. The block's `vendor` keeps the parts that a
later request must give back unchanged: the name of the field with reasoning, and each call as the server made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from swarm.models.message_encoder import encode_text

_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_REASONING = ("reasoning_content", "reasoning")
"""Fields in which compatible servers send reasoning."""

Events = Iterator[Mapping[str, Any]]


class ChatReader:
    """The chunks of one reply in order. Malformed ones raise `KeyError`, `TypeError` or `AttributeError`."""

    ignored: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self, name: str) -> None:
        """`name` is the model's full name, with its vendor."""
        self._name = name
        self._index = -1
        self._open = ""
        """The kind of block that is being written: the field, or `call N`."""
        self._item: Any = None
        """The vendor's own form of that block."""
        self._calls = 0
        self._begun = False
        self._reason = ""
        self.usage: dict[str, int] | None = None
        """The usage in the Messages API's classes, once the server has told it."""

    @staticmethod
    def is_reply(document: Mapping[str, Any]) -> bool:
        """Whether a document that came in one piece is a reply."""
        return bool(document.get("choices"))

    @staticmethod
    def failure(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the error body that a document holds, if it does."""
        return document if document.get("error") else None

    def read(self, chunk: Mapping[str, Any]) -> Events:
        """Yield the events of a chunk."""
        if not self._begun:
            self._begun = True
            yield {"type": "message_start", "message": {"model": self._name}}
        if chunk.get("usage"):
            self.usage = read_usage(chunk["usage"])
        for choice in (chunk.get("choices") or ())[:1]:
            yield from self._add(choice.get("delta") or choice.get("message") or {})
            self._reason = choice.get("finish_reason") or self._reason

    def end(self, *, said: bool) -> Events:
        """Yield the events of the end; none if the reply was cut. `said` is whether the server said that it ended."""
        if not self._begun or not (self._reason or said):
            return
        yield from self._close()
        reason = _REASONS.get(self._reason, "end_turn")
        if self._calls and reason == "end_turn":
            reason = "tool_use"
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": self.usage}
        yield {"type": "message_stop"}

    def _add(self, delta: Mapping[str, Any]) -> Events:
        for field in _REASONING:
            if delta.get(field):
                yield from self._begin(field, {"type": "thinking", "thinking": "", "signature": ""}, field)
                yield self._piece("thinking_delta", "thinking", delta[field])
                break
        text = delta.get("content") or delta.get("refusal")
        if isinstance(text, list):  # Mistral's parts
            text = "".join(part.get("text") or "" for part in text)
        if text:
            yield from self._begin("text", {"type": "text", "text": ""}, None)
            yield self._piece("text_delta", "text", text)
        for at, call in enumerate(delta.get("tool_calls") or ()):
            yield from self._add_call(call, call.get("index", at))

    def _add_call(self, call: Mapping[str, Any], index: int) -> Events:
        function = call.get("function") or {}
        # Some servers number all calls 0: another id begins a new one.
        is_new = self._open != f"call {index}" or call.get("id") not in (None, "", self._item.get("id"))
        if is_new and function.get("name"):
            self._calls += 1
            yield from self._close()
            block = {"type": "tool_use", "id": call.get("id") or f"call_{self._calls}", "name": function["name"]}
            item = {"type": "function", **call, "function": {**function, "arguments": ""}}
            item.pop("index", None)
            yield from self._begin(f"call {index}", {**block, "input": {}}, item)
        piece = function.get("arguments") or ""
        if piece:
            piece = piece if isinstance(piece, str) else encode_text(piece)
            self._item["function"]["arguments"] += piece
            yield self._piece("input_json_delta", "partial_json", piece)

    def _begin(self, kind: str, block: dict[str, Any], item: Any) -> Events:
        if self._open != kind:
            yield from self._close()
            self._index += 1
            self._open, self._item = kind, item
            yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _piece(self, kind: str, field: str, piece: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, field: piece}}

    def _close(self) -> Events:
        if self._open:
            if self._item is not None:
                kept = {"type": "vendor_delta", "vendor": {"name": self._name, "item": self._item}}
                yield {"type": "content_block_delta", "index": self._index, "delta": kept}
            yield {"type": "content_block_stop", "index": self._index}
        self._open, self._item = "", None


def read_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return usage in the Messages API's classes: there, input excludes the tokens that were read from the cache."""
    details = usage.get("prompt_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return {
        "input_tokens": max(0, (usage.get("prompt_tokens") or 0) - read - written),
        "output_tokens": usage.get("completion_tokens") or 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
