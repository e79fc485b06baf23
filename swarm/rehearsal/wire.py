"""JSON shapes of the API: content blocks, messages, stream events, errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.provider import InputUsage, estimate_tokens
from swarm.rehearsal.scenario import FoundPage, ScriptedReply, UsageOverride

_MOST_PIECES = 8
_SMALLEST_PIECE = 200

_encode = json.JSONEncoder(separators=(",", ":")).encode


def encode_json(value: Any) -> bytes:
    """Encode compact JSON."""
    return _encode(value).encode()


def sign_thinking(thinking: str) -> str:
    """Sign a thinking block; the result ends in a dot, and the value it is bound to follows."""
    return "rehearsed-" + hashlib.blake2b(thinking.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()


def build_content(reply: ScriptedReply, digest: bytes, bound: Callable[[], str]) -> list[dict[str, Any]]:
    """Build a reply's content blocks.

    Ids of tool calls derive from the request's digest, so a repeated request gets the same ones. `bound` returns the value that thinking
    is bound to.
    """
    content: list[dict[str, Any]] = []
    if reply.thinking:
        signature = f"{sign_thinking(reply.thinking)}.{bound()}"
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
    if reply.found is not None:
        content += _search(reply.found, digest)
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for index, call in enumerate(reply.tools):
        token = hashlib.blake2b(f"{index}/{call.name}".encode(), digest_size=12, key=digest).hexdigest()
        content.append({"type": "tool_use", "id": call.id or f"toolu_{token}", "name": call.name, "input": call.input})
    return content


def _search(found: tuple[FoundPage, ...], digest: bytes) -> list[dict[str, Any]]:
    call_id = f"srvtoolu_{digest.hex()[:24]}"
    results = [
        {"type": "web_search_result", "url": page.url, "title": page.title, "encrypted_content": "x", "page_age": None}
        for page in found
    ]
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "what was asked"}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": results},
    ]


def build_usage(given: InputUsage, override: UsageOverride | None, content: list[dict[str, Any]]) -> dict[str, Any]:
    """The usage of a whole reply, in the API's form."""
    five, hour = given.cache_creation_5m_tokens, given.cache_creation_1h_tokens
    usage: dict[str, Any] = {
        "input_tokens": given.input_tokens,
        "cache_creation_input_tokens": five + hour,
        "cache_read_input_tokens": given.cache_read_input_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
        "output_tokens": estimate_tokens(content) if content else 1,
        "service_tier": "standard",
    }
    if override is not None:
        usage.update(override.model_dump(exclude_none=True))
        if override.cache_creation_input_tokens is not None:
            usage["cache_creation"] = {
                "ephemeral_5m_input_tokens": override.cache_creation_input_tokens,
                "ephemeral_1h_input_tokens": 0,
            }
    return usage


def bill_summary(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage of a summary, in the API's form: separate from the sums, which leave it out."""
    counts = {name: count for name, count in usage.items() if name != "service_tier"}
    nothing = {name: 0 for name in counts if name.endswith("_tokens")}
    return {**nothing, "service_tier": "standard", "iterations": [{"type": "compaction", **counts}]}


def build_message(
    message_id: str, model: str, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    """A whole message."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def build_events(message: dict[str, Any]) -> list[bytes]:
    """Build the stream events of a message, from `message_start` to `message_stop`."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events = [encode_event("message_start", {"message": start}), encode_event("ping", {})]
    for index, block in enumerate(message["content"]):
        events += _block_events(index, block)
    total = {key: value for key, value in usage.items() if key not in ("cache_creation", "service_tier")}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(encode_event("message_delta", {"delta": delta, "usage": total}))
    events.append(encode_event("message_stop", {}))
    return events


def share_sent(events: list[bytes], sent: list[bytes]) -> float:
    """The share of a reply's output that these of its events hold, 0 … 1."""
    sizes = [sum(len(event) for event in some if b"content_block_delta" in event) for some in (events, sent)]
    return sizes[1] / sizes[0] if sizes[0] else 1.0


def encode_event(kind: str, fields: dict[str, Any]) -> bytes:
    """Encode one server-sent event."""
    return f"event: {kind}\ndata: {_encode({'type': kind, **fields})}\n\n".encode()


def build_error(refusal: RequestRefused, request_id: str) -> dict[str, Any]:
    """Build an error body."""
    error: dict[str, Any] = {"type": refusal.kind, "message": refusal.message}
    if refusal.code is not None:
        error["details"] = {"error_code": refusal.code}
    return {"type": "error", "error": error, "request_id": request_id}


def _block_events(index: int, block: dict[str, Any]) -> list[bytes]:
    empty: dict[str, Any]
    deltas: list[dict[str, Any]]
    match block["type"]:
        case "text":
            empty = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in cut_pieces(block["text"])]
        case "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut_pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "compaction" | "web_search_tool_result":
            empty, deltas = block, []
        case _:
            empty = {**block, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in cut_pieces(_encode(block["input"]))
            ]
    return [
        encode_event("content_block_start", {"index": index, "content_block": empty}),
        *(encode_event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas),
        encode_event("content_block_stop", {"index": index}),
    ]


def cut_pieces(text: str) -> list[str]:
    """Cut a long text into a few pieces, because events are costly for the client."""
    size = max(_SMALLEST_PIECE, -(-len(text) // _MOST_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]
