"""Puts a streamed reply together from its events, keeping every block as the API gave it.

Works on the events' plain JSON, so blocks and fields newer than this code pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pydantic import ValidationError

from swarm.core.plain import clean, find_unfit, load_json
from swarm.models import Begin, Block, Hear, Progress, Reply, Told, Usage

UNREADABLE_INPUT = "INVALID_JSON"
"""The only key of an `input` whose JSON is broken, such as cut off. The value is the text."""

_TEXT_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_CHARACTERS_PER_TOKEN = 4
_USAGE_FIELDS = tuple(Usage.model_fields)


def tell_apart(content: Sequence[Block], known: Set[str], turn: int) -> list[Block]:
    """Give each call of a reply an id that is unique in the conversation; returns the blocks.

    Some servers count calls from 0 in every reply, or give two calls one id. Results and children are found by these ids.
    """
    taken, told = set(known), []
    for index, block in enumerate(content):
        if block.get("type") == "tool_use":
            call_id = str(block.get("id") or "call")
            while call_id in taken:
                call_id = f"{call_id}_{turn}_{index}"
            taken.add(call_id)
            block = block if call_id == block.get("id") else {**block, "id": call_id}
        told.append(block)
    return told


def split_message(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the events of which a whole message would have been streamed."""
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": message.get("stop_reason")}, "usage": message.get("usage")}
    yield {"type": "message_stop"}


class ReplyBuilder:
    """A reply under construction: feed it every event in order, then ask for the result."""

    def __init__(
        self, on_progress: Progress | None = None, on_words: Hear | None = None, on_begin: Begin | None = None
    ) -> None:
        self._on_progress, self._on_words, self._on_begin = on_progress, on_words, on_begin
        self._blocks: dict[int, Block] = {}
        # Pieces are joined once, when the block ends: a long text has thousands of them.
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._usage: dict[str, int] = {}
        self._beside: Usage | None = None
        self._characters = 0
        """Characters received that the server has not counted yet."""
        self._model = ""
        self._stop_reason: str | None = None
        self._stopped = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event, ignoring unknown kinds. Raises `KeyError` or `TypeError` if malformed."""
        match event.get("type"):
            case "content_block_delta":
                self._add_delta(event["index"], event["delta"])
            case "content_block_start":
                self._start_block(event["index"], event["content_block"])
            case "content_block_stop":
                self._end_block(event["index"])
            case "message_start":
                self._model = event["message"]["model"]
                if self._on_progress is not None:
                    self._on_progress("")
                self._add_usage(event["message"].get("usage"))
                if self._on_begin is not None and (told := self.told()) is not None:
                    self._on_begin(told)
            case "message_delta":
                self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
                self._add_usage(event.get("usage"))
                self._characters = 0
            case "message_stop":
                self._stopped = True

    def finish(self, request_id: str | None, request_sha: str = "") -> Reply | None:
        """The whole reply, or None if the stream ended before the reply did."""
        if not self._stopped or not (self._stop_reason or self._blocks):
            return None
        for index in list(self._pieces):
            self._end_block(index)
        # Some servers name no reason for a whole reply.
        calls = any(block.get("type") == "tool_use" for block in self._blocks.values())
        return Reply(
            content=[clean(self._blocks[index]) for index in sorted(self._blocks)],
            stop_reason=self._stop_reason or ("tool_use" if calls else "end_turn"),
            usage=Usage(**self._usage) if self._beside is None else Usage(**self._usage) + self._beside,
            model=self._model,
            request_id=request_id,
            request_sha=request_sha,
        )

    def told(self) -> Told | None:
        """The usage of a reply that ended too early; None if it had not begun."""
        if not self._model:
            return None
        try:
            missing = max(0, -(-self._characters // _CHARACTERS_PER_TOKEN) - self._usage.get("output_tokens", 0))
            usage = (self._beside or Usage()) + Usage(**self._usage) + Usage(output_tokens=missing)
        except (ValidationError, TypeError):  # a damaged stream
            return None
        return Told(model=str(self._model), usage=usage, estimated=Usage(output_tokens=missing))

    def _start_block(self, index: int, block: Block) -> None:
        self._blocks[index] = dict(block)
        self._characters += len(block.get("name") or "")
        if self._on_progress is not None:
            activity = _activity(block)
            if activity:
                self._on_progress(activity)

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        kind = delta["type"]
        field = _TEXT_DELTAS.get(kind)
        if field is not None:
            self._pieces.setdefault(index, {}).setdefault(field, []).append(delta[field])
            self._characters += len(delta[field])
            if self._on_words is not None and field != "signature":
                self._on_words(index, self._blocks[index], delta[field])
        elif kind in ("compaction_delta", "vendor_delta"):
            self._blocks[index] |= {
                name: value for name, value in delta.items() if name != "type" and value is not None
            }
        elif kind == "citations_delta":
            block = self._blocks[index]
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]

    def _end_block(self, index: int) -> None:
        block = self._blocks[index]
        for field, pieces in self._pieces.pop(index, {}).items():
            text = "".join(pieces)
            if field == "partial_json":
                block["input"] = _parse_input(text)
            else:
                block[field] = (block.get(field) or "") + text

    def _add_usage(self, usage: Mapping[str, Any] | None) -> None:
        # Counts in `message_delta` are cumulative: the last stated one holds.
        for field in _USAGE_FIELDS:
            count = usage.get(field) if usage else None
            if count is not None:
                self._usage[field] = count
        if usage and usage.get("iterations"):
            # A summary is billed here only.
            made = [part for part in usage["iterations"] if part.get("type") == "compaction"]
            self._beside = sum(
                (Usage(**{name: part.get(name) or 0 for name in _USAGE_FIELDS}) for part in made), Usage()
            )


def _activity(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return "writing"
        case "thinking" | "redacted_thinking":
            return "thinking"
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return f"calling {block.get('name', 'a tool')}"
        case _:
            return ""


def _parse_input(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        parsed: Any = load_json(text)
    except (ValueError, RecursionError):
        return {UNREADABLE_INPUT: text}
    if not isinstance(parsed, dict):
        return {UNREADABLE_INPUT: text}
    # Input that cannot be stored as it is cannot be sent back either: every later request would fail.
    return {UNREADABLE_INPUT: text} if find_unfit(parsed) else parsed
