"""Reads replies of OpenAI's Responses as events of the Messages API, which `ReplyBuilder` takes.

Source: https://platform.openai.com/docs/api-reference/responses-streaming. An output item becomes a block: reasoning, a message or a
call. The block's `vendor` keeps the whole item as it ended, because a later request must give it back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from swarm.models.message_encoder import encode_text
from swarm.models.responses_request import strip_item

_PIECES = {
    "response.output_text.delta": ("text_delta", "text"),
    "response.refusal.delta": ("text_delta", "text"),
    "response.reasoning_summary_text.delta": ("thinking_delta", "thinking"),
    "response.reasoning_text.delta": ("thinking_delta", "thinking"),
    "response.function_call_arguments.delta": ("input_json_delta", "partial_json"),
}
_KINDS = {
    "message": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "function_call": ("input_json_delta", "partial_json"),
}
_TOLD_AGAIN = (
    *(b"response.in_progress", b"response.content_part.added", b"response.content_part.done"),
    *(b"response.output_text.done", b"response.refusal.done", b"response.function_call_arguments.done"),
    *(b"response.reasoning_summary_part.added", b"response.reasoning_summary_part.done"),
    *(b"response.reasoning_summary_text.done", b"response.reasoning_text.done"),
)
_ENDS = ("response.completed", "response.incomplete")
_BETWEEN = "\n\n"
"""Between the parts of one item."""

Events = Iterator[Mapping[str, Any]]


class ResponsesReader:
    """The events of one reply in order. Malformed ones raise `KeyError`, `TypeError` or `AttributeError`."""

    ignored: ClassVar[frozenset[bytes]] = frozenset(_TOLD_AGAIN)

    def __init__(self, name: str) -> None:
        """`name` is the model's full name, with its vendor."""
        self._name = name
        self._begun = False
        self._open: dict[int, list[str]] = {}
        """The pieces of each item that is being written, by its number."""
        self._parts: dict[int, int] = {}
        """The part that is being written of each item."""
        self._ended: set[int] = set()
        self._numbers: dict[str, int] = {}
        """The number of each item by its name."""
        self._has_calls = self._refuses = False
        self._reason: str | None = None
        self.usage: dict[str, int] | None = None
        """The usage in the Messages API's classes, once the server has told it."""

    @staticmethod
    def is_reply(document: Mapping[str, Any]) -> bool:
        """Whether a document that came in one piece is a reply."""
        return document.get("object") == "response" and isinstance(document.get("output"), list)

    @staticmethod
    def failure(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the error body that a document holds, if it does."""
        response = document.get("response") or {}
        error = document.get("error") or response.get("error")
        if error is None and document.get("type") == "error":
            error = {**document, "type": ""}
        return None if error is None else {"error": error}

    def read(self, document: Mapping[str, Any]) -> Events:
        """Yield the events of an event of the server, or of a whole reply."""
        if not self._begun:
            self._begun = True
            yield {"type": "message_start", "message": {"model": self._name}}
        kind = document.get("type")
        if kind in _PIECES:
            yield from self._add(document["output_index"], document)
        elif kind == "response.output_item.added":
            yield from self._begin(document["output_index"], document["item"])
        elif kind == "response.output_item.done":
            yield from self._close(document["output_index"], document["item"])
        elif kind in _ENDS:
            yield from self._finish(document["response"])
        elif self.is_reply(document):
            yield from self._finish(document)

    def end(self, *, said: bool) -> Events:
        """Yield the events of the end; none if the reply was cut. The server says in its last event that it ended."""
        if self._reason is None:
            return
        yield {"type": "message_delta", "delta": {"stop_reason": self._reason}, "usage": self.usage}
        yield {"type": "message_stop"}

    def _begin(self, index: int, item: Mapping[str, Any]) -> Events:
        match item["type"]:
            case "message":
                block: dict[str, Any] = {"type": "text", "text": ""}
            case "reasoning":
                block = {"type": "thinking", "thinking": "", "signature": ""}
            case "function_call":
                self._has_calls = True
                block = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": {}}
            case _:  # of the server's own tools, which no request offers
                return
        self._open[index] = []
        if name := _name_of(item):
            self._numbers[name] = index
        yield {"type": "content_block_start", "index": index, "content_block": block}

    def _add(self, index: int, event: Mapping[str, Any]) -> Events:
        if index in self._open and event["delta"]:
            part = event.get("summary_index", event.get("content_index", 0))
            if self._open[index] and part != self._parts.get(index, part):
                yield self._piece(index, _PIECES[event["type"]], _BETWEEN)
            self._parts[index] = part
            yield self._piece(index, _PIECES[event["type"]], event["delta"])

    def _piece(self, index: int, kind: tuple[str, str], piece: str) -> dict[str, Any]:
        self._open[index].append(piece)
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind[0], kind[1]: piece}}

    def _close(self, index: int, item: Mapping[str, Any]) -> Events:
        if index not in self._open:
            yield from self._begin(index, item)
        if index not in self._open:
            return
        streamed, whole = "".join(self._open[index]), _words(item)
        if whole.startswith(streamed) and whole != streamed:
            # Some servers stream only some of the words, or none.
            yield self._piece(index, _KINDS[item["type"]], whole[len(streamed) :])
            streamed = whole
        if item["type"] == "message":
            self._refuses = self._refuses or any(part["type"] == "refusal" for part in item["content"])
        kept = {"name": self._name, "wire": "responses", "item": strip_item(dict(item), _beside(item, streamed))}
        delta = {"type": "vendor_delta", "vendor": kept}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
        del self._open[index]
        self._ended.add(index)

    def _finish(self, response: Mapping[str, Any]) -> Events:
        # The last list may lack items that were streamed, so the others stand at other places in it.
        streamed = dict(self._numbers)
        for place, item in enumerate(response.get("output") or ()):
            index = streamed.get(_name_of(item), place)
            if index not in self._ended:
                yield from self._close(index, item)
        if response.get("usage"):
            self.usage = read_usage(response["usage"])
        why = (response.get("incomplete_details") or {}).get("reason")
        if response.get("status") == "incomplete" or why:
            self._reason = "refusal" if why == "content_filter" else "max_tokens"
        elif self._refuses:
            self._reason = "refusal"
        else:
            self._reason = "tool_use" if self._has_calls else "end_turn"


def read_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return usage in the Messages API's classes: there, input excludes the tokens that were read from the cache."""
    details = usage.get("input_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return {
        "input_tokens": max(0, int(usage.get("input_tokens") or 0) - read - written),
        "output_tokens": int(usage.get("output_tokens") or 0),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def _name_of(item: Mapping[str, Any]) -> str:
    """The name of an item in its reply; empty without one. Some servers rename items at their end, but no call."""
    return str(item.get("call_id") or item.get("id") or "")


def _words(item: Mapping[str, Any]) -> str:
    """The words of an item that has ended."""
    match item["type"]:
        case "message":
            return _BETWEEN.join(part.get("text") or part.get("refusal") or "" for part in item["content"])
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            return _BETWEEN.join(part["text"] for part in parts)
        case _:
            return str(item.get("arguments") or "")


def _beside(item: Mapping[str, Any], words: str) -> str | None:
    """The words as the block gives them back: an input is encoded again. None if it cannot be."""
    if item["type"] != "function_call":
        return words
    try:
        return encode_text(json.loads(words))
    except ValueError:
        return None
