"""The rehearsal in OpenAI's Chat Completions: requests become the Messages API's, and replies become chunks.

Requests are checked as strictly as the vendor's own server does where clients go wrong: the order of calls and results, ids, types, names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.responses_wire import check_tool_name, mark_cache

_LONGEST_ID = 40
_REASONS = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def read_chat(body: Any) -> Any:
    """Return the body as one of the Messages API. Raises `RequestRefused`."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise RequestRefused("messages: a list is required")
    system: list[str] = []
    made: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for message in body["messages"]:
        role = message.get("role")
        if open_calls and role != "tool":
            raise RequestRefused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
                f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
            )
        match role:
            case "system":
                system.append(message["content"])
            case "user":
                _append(made, "user", list(_blocks(message["content"])))
            case "assistant":
                blocks = list(_reply_blocks(message))
                open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
                _append(made, "assistant", blocks)
            case "tool":
                call_id, content = message["tool_call_id"], message["content"]
                if call_id not in open_calls or not isinstance(content, str):
                    raise RequestRefused(f"messages with role 'tool' must be text that answers a call: {call_id}")
                open_calls.remove(call_id)
                _append(made, "user", [{"type": "tool_result", "tool_use_id": call_id, "content": content}])
            case _:
                raise RequestRefused(f"unknown role {role!r}")
    return {
        "model": body.get("model"),
        "max_tokens": body.get("max_completion_tokens", body.get("max_tokens")),
        "stream": body.get("stream"),
        "messages": made,
        **mark_cache("\n\n".join(system)),
        **({"tools": list(map(_tool, body["tools"]))} if body.get("tools") else {}),
        **({"tool_choice": {"type": "none"}} if body.get("tool_choice") == "none" else {}),
    }


def build_whole(message: dict[str, Any]) -> dict[str, Any]:
    """Build a reply in one piece."""
    said: dict[str, Any] = {"role": "assistant", "content": None}
    for delta in _deltas(message["content"]):
        for name, value in delta.items():
            said[name] = [*said.get(name, []), *value] if isinstance(value, list) else (said.get(name) or "") + value
    return {
        **_head(message, "chat.completion"),
        "choices": [{"index": 0, "message": said, "finish_reason": _reason(message)}],
        "usage": _usage(message["usage"]),
    }


def build_chunks(message: dict[str, Any]) -> list[bytes]:
    """Build the stream of a reply, to its end."""
    head = _head(message, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None})

    last = _event({**head, "choices": [], "usage": _usage(message["usage"])})
    pieces = map(chunk, _deltas(message["content"]))
    return [chunk({"role": "assistant"}), *pieces, chunk({}, _reason(message)), last, b"data: [DONE]\n\n"]


def _blocks(content: Any) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        if part["type"] == "image_url":
            kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
            yield {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        else:
            yield {"type": "text", "text": part["text"]}


def _reply_blocks(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if message.get("content"):
        yield {"type": "text", "text": message["content"]}
    for call in message.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        if call["type"] != "function" or len(call["id"]) > _LONGEST_ID or not isinstance(arguments, str):
            raise RequestRefused(
                f"tool_calls: {call['id']!r} has a wrong type, an id that is too long or arguments that are no text"
            )
        yield {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": json.loads(arguments)}


def _append(made: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if made and made[-1]["role"] == role:
        made[-1]["content"] += blocks
    else:
        made.append({"role": role, "content": blocks})


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    check_tool_name(function["name"])
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def _deltas(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    calls = 0
    for block in content:
        match block["type"]:
            case "text":
                yield {"content": block["text"]}
            case "thinking":
                yield {"reasoning_content": block["thinking"]}
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                yield {"tool_calls": [{"index": calls, "id": block["id"], "type": "function", "function": function}]}
                calls += 1


def _head(message: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": message["id"].replace("msg_", "chatcmpl-"), "object": kind, "created": 0, "model": message["model"]}


def _reason(message: dict[str, Any]) -> str:
    return _REASONS.get(message["stop_reason"], "stop")


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    prompt, output = usage["input_tokens"] + read + written, usage["output_tokens"]
    details = {"cached_tokens": read, "cache_write_tokens": written}
    return {
        **{"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output},
        "prompt_tokens_details": details,
    }


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
