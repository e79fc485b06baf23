"""Reads replies of Google's Gemini API as events of the Messages API, which `ReplyBuilder` takes.

Source: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse. A stream is a row of responses whose parts continue
one another. The block's `vendor` keeps the signatures of thoughts, each with the part that it came on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

_REASONS = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "OTHER": "end_turn",
    "FINISH_REASON_UNSPECIFIED": "end_turn",
}
"""All other reasons are refusals of some kind."""
_BROKEN = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE")
"""The model wrote a call that its server could not read: nothing came of the request."""
_SIGNATURE = "thoughtSignature"

Events = Iterator[Mapping[str, Any]]


class GeminiReader:
    """The responses of one stream in order. Malformed ones raise `KeyError`, `TypeError` or `AttributeError`."""

    ignored: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self, name: str) -> None:
        """`name` is the model's full name, with its vendor."""
        self._name = name
        self._index = -1
        self._open = ""
        """The kind of block that is being written."""
        self._parts: list[dict[str, Any]] = []
        """The parts of that block, without their words."""
        self._begun = False
        self._calls = 0
        self._reason = ""
        self.usage: dict[str, int] | None = None
        """The usage in the Messages API's classes, as far as the server has told it."""

    @staticmethod
    def is_reply(document: Mapping[str, Any]) -> bool:
        """Whether a document that came in one piece is a reply."""
        return bool(document.get("candidates") or document.get("promptFeedback"))

    @staticmethod
    def failure(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the error body that a document holds, if it does."""
        if document.get("error"):
            return document
        candidate: Mapping[str, Any] = next(iter(document.get("candidates") or ()), {})
        if (reason := candidate.get("finishReason")) in _BROKEN:
            told = f"{reason}: {candidate.get('finishMessage') or 'the model wrote a call that cannot be read'}"
            return {"error": {"status": "INTERNAL", "message": told}}
        return None

    def read(self, document: Mapping[str, Any]) -> Events:
        """Yield the events of a response."""
        if document.get("usageMetadata"):
            self.usage = read_usage(document["usageMetadata"])
        if not self._begun:
            self._begun = True
            yield {"type": "message_start", "message": {"model": self._name, "usage": self.usage}}
        if (document.get("promptFeedback") or {}).get("blockReason"):
            self._reason = "refusal"
        for candidate in (document.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._add(part)
            if reason := candidate.get("finishReason"):
                self._reason = _REASONS.get(reason, "refusal")

    def end(self, *, said: bool) -> Events:
        """Yield the events of the end; none if the reply was cut. The last response tells why it ended."""
        if not self._reason:
            return
        yield from self._close()
        reason = "tool_use" if self._calls and self._reason == "end_turn" else self._reason
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": self.usage}
        yield {"type": "message_stop"}

    def _add(self, part: Mapping[str, Any]) -> Events:
        if call := part.get("functionCall"):
            yield from self._add_call(part, call)
        elif "text" in part:
            kind = "thinking" if part.get("thought") else "text"
            signature = {_SIGNATURE: part[_SIGNATURE]} if part.get(_SIGNATURE) else {}
            if not part["text"] and not signature:
                return
            if self._open != kind:
                block = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
                yield from self._begin(kind, block)
            if self._parts and not signature and _SIGNATURE not in self._parts[-1]:
                self._parts[-1]["length"] += len(part["text"])
            else:
                self._parts.append({"length": len(part["text"]), **signature})
            if part["text"]:
                yield self._delta({"type": f"{kind}_delta", kind: part["text"]})

    def _add_call(self, part: Mapping[str, Any], call: Mapping[str, Any]) -> Events:
        self._calls += 1
        block = {"type": "tool_use", "id": call.get("id") or f"call_{self._calls}", "name": call["name"], "input": {}}
        yield from self._begin("call", block)
        given = json.dumps(call.get("args") or {}, ensure_ascii=False)
        yield self._delta({"type": "input_json_delta", "partial_json": given})
        kept = {name: value for name, value in call.items() if name not in ("id", "name", "args")}
        yield self._keep({**part, "functionCall": kept})
        yield from self._close()

    def _begin(self, kind: str, block: dict[str, Any]) -> Events:
        yield from self._close()
        self._index += 1
        self._open = kind
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _keep(self, item: Any) -> dict[str, Any]:
        return self._delta({"type": "vendor_delta", "vendor": {"name": self._name, "wire": "gemini", "item": item}})

    def _close(self) -> Events:
        if self._open:
            # A text without signatures is the same for every model.
            if self._open == "thinking" or any(_SIGNATURE in part for part in self._parts):
                yield self._keep({"parts": self._parts})
            yield {"type": "content_block_stop", "index": self._index}
        self._open, self._parts = "", []


def read_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return usage in the Messages API's classes: there, input excludes cached tokens, and output includes thoughts."""
    read = usage.get("cachedContentTokenCount") or 0
    given = (usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0)
    return {
        "input_tokens": max(0, given - read),
        "output_tokens": (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 0,
    }
