"""The rehearsal in OpenAI's Responses: requests become the Messages API's, and replies become items and their events.

Requests are checked as strictly as the vendor's own server does where clients go wrong: unknown fields, storing, the order of reasoning,
calls and results, ids, types, schemas. Reasoning travels encrypted: the server reads its own words back, and refuses any others.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.wire import cut_pieces, encode_event, encode_json

_KNOWN = {
    *("model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "store", "stream"),
    *("include", "prompt_cache_key", "text", "service_tier", "max_output_tokens", "prompt_cache_retention", "metadata"),
}
_FIELDS = {
    "message": ({"role", "content"}, {"type", "id", "status", "phase"}),
    "reasoning": ({"type", "id", "summary"}, {"encrypted_content", "content", "status"}),
    "function_call": ({"type", "call_id", "name", "arguments"}, {"id", "status"}),
    "function_call_output": ({"type", "call_id", "output"}, {"id", "status"}),
}
"""The required and the other fields of input items."""
_LONGEST_ID = 64
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LEAST_OUTPUT = 16
_INCLUDE = "reasoning.encrypted_content"
_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fc_"}
_EFFORTS = (None, "none", "minimal", "low", "medium", "high", "xhigh")
_INCOMPLETE = {"max_tokens": "max_output_tokens", "model_context_window_exceeded": "max_output_tokens"}

Block = dict[str, Any]


def read_responses(body: Any) -> Any:
    """Return the body as one of the Messages API. Raises `RequestRefused`."""
    if not isinstance(body, dict) or not isinstance(body.get("input"), list):
        raise RequestRefused("Missing required parameter: 'input'.")
    if unknown := set(body) - _KNOWN:
        raise RequestRefused(f"Unknown parameter: '{min(unknown)}'.", code="unknown_parameter")
    if body.get("store") is not False:
        raise RequestRefused("This organization keeps no data: 'store' must be false.")
    longest = body.get("max_output_tokens", 128_000)
    if not isinstance(longest, int) or longest < _LEAST_OUTPUT:
        raise RequestRefused(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {_LEAST_OUTPUT}."
        )
    if (body.get("reasoning") or {}).get("effort") not in _EFFORTS:
        raise RequestRefused("Unsupported value: 'reasoning.effort'.", code="unsupported_value")
    return {
        "model": body.get("model"),
        "max_tokens": longest,
        "stream": body.get("stream"),
        "messages": list(_messages(body["input"])),
        **mark_cache(body.get("instructions") or ""),
        **({"tools": list(map(_tool, body["tools"]))} if body.get("tools") else {}),
        **({"tool_choice": {"type": "none"}} if body.get("tool_choice") == "none" else {}),
    }


def mark_cache(system: str) -> dict[str, Any]:
    """Return the fields of a request with a system prompt whose prompt cache needs no marks: it holds the head and the whole."""
    mark = {"cache_control": {"type": "ephemeral"}}
    return {**mark, **({"system": [{"type": "text", "text": system, **mark}]} if system else {})}


def build_response(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Build a reply in one piece, to a request with this body."""
    items = list(_items(message, body))
    reason = _INCOMPLETE.get(message["stop_reason"])
    if message["stop_reason"] == "refusal" and not any(item["type"] == "message" for item in items):
        reason = "content_filter"
    return {
        **_head(message),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": items,
        "usage": _usage(message["usage"]),
    }


def build_response_events(message: dict[str, Any], body: dict[str, Any]) -> list[bytes]:
    """Build the stream of a reply, to its end."""
    whole = build_response(message, body)
    begun = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for index, item in enumerate(whole["output"]):
        events += _item_events(index, item)
    events.append((f"response.{whole['status']}", {"response": whole}))
    return [encode_event(kind, {"sequence_number": at, **fields}) for at, (kind, fields) in enumerate(events)]


def build_openai_error(refusal: RequestRefused) -> dict[str, Any]:
    """Build an error body of OpenAI's formats."""
    code = "context_length_exceeded" if refusal.message.startswith("prompt is too long") else refusal.code
    code = {"rate_limit_error": "rate_limit_exceeded", "overloaded_error": "server_is_overloaded"}.get(
        refusal.kind if code is None else "", code
    )
    return {"error": {"message": refusal.message, "type": refusal.kind, "param": None, "code": code}}


def build_failure_event(message: str) -> bytes:
    """Build the event of an overload in the middle of a reply."""
    response = {
        "object": "response",
        "status": "failed",
        "error": {"code": "server_is_overloaded", "message": message},
        "usage": None,
    }
    return encode_event("response.failed", {"response": response})


# -- a request --------------------------------------------------------------------------------------------------------


def _messages(items: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of which the items are parts. Neighbours of one role are one message."""
    role, blocks = "", list[Block]()
    open_calls: list[str] = []
    for at, item in enumerate(items):
        kind = _check_item(item, f"input[{at}]")
        if kind == "reasoning":
            _check_follower(items, at)
        said = _role(item, kind)
        if open_calls and said != "assistant" and kind != "function_call_output":
            raise RequestRefused(f"No tool output found for function call {open_calls[0]}.")
        if said != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = said
        if kind == "function_call":
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                raise RequestRefused(
                    f"No tool call found for function call output with call_id {item['call_id']}.", code=None
                )
            open_calls.remove(item["call_id"])
        blocks += _blocks(item, kind, f"input[{at}]")
    if open_calls:
        raise RequestRefused(f"No tool output found for function call {open_calls[0]}.")
    if blocks:
        yield {"role": role, "content": blocks}


def _check_item(item: Any, place: str) -> str:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind not in _FIELDS:
        raise RequestRefused(f"Invalid value: '{kind}' at {place}.type.", code="invalid_value")
    required, others = _FIELDS[kind]
    if missing := required - set(item):
        raise RequestRefused(
            f"Missing required parameter: '{place}.{min(missing)}'.", code="missing_required_parameter"
        )
    if unknown := set(item) - required - others:
        raise RequestRefused(f"Unknown parameter: '{place}.{min(unknown)}'.", code="unknown_parameter")
    if not str(item.get("id") or _PREFIXES[kind]).startswith(_PREFIXES[kind]):
        raise RequestRefused(
            f"Invalid '{place}.id': '{item['id']}'. Expected an ID that begins with '{_PREFIXES[kind]}'."
        )
    call_id = item.get("call_id", "-")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_ID:
        raise RequestRefused(f"Invalid '{place}.call_id': string too long. Expected a string with maximum length 64.")
    return str(kind)


def _check_follower(items: list[Any], at: int) -> None:
    after: Any = next((item for item in items[at + 1 :] if item.get("type") != "reasoning"), {})
    if after.get("type") != "function_call" and after.get("role") != "assistant":
        raise RequestRefused(
            f"Item '{items[at]['id']}' of type 'reasoning' was provided without its required following item."
        )


def _role(item: dict[str, Any], kind: str) -> str:
    if kind == "message":
        return str(item["role"])
    return "user" if kind == "function_call_output" else "assistant"


def _blocks(item: dict[str, Any], kind: str, place: str) -> list[Block]:
    match kind:
        case "message":
            return list(_parts(item["content"], item["role"], f"{place}.content"))
        case "reasoning":
            return [_open_reasoning(item, place)]
        case "function_call":
            arguments = item["arguments"]
            if not isinstance(arguments, str):
                raise RequestRefused(f"Invalid type for '{place}.arguments': expected a string.", code="invalid_type")
            return [
                {
                    "type": "tool_use",
                    "id": item["call_id"],
                    "name": item["name"],
                    "input": json.loads(arguments or "{}"),
                }
            ]
        case _:
            output = item["output"]
            content = output if isinstance(output, str) else list(_parts(output, "user", f"{place}.output"))
            return [{"type": "tool_result", "tool_use_id": item["call_id"], "content": content}]


def _parts(content: Any, role: str, place: str) -> Iterator[Block]:
    kinds = {"assistant": ("output_text", "refusal")}.get(role, ("input_text", "input_image"))
    if isinstance(content, str):
        content = [{"type": kinds[0], "text": content}]
    for at, part in enumerate(content):
        if part.get("type") not in kinds:
            raise RequestRefused(
                f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(map(repr, kinds))} at {place}[{at}].",
                code="invalid_value",
            )
        if part["type"] == "input_image":
            media, _, data = part["image_url"].removeprefix("data:").partition(";base64,")
            yield {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
        else:
            yield {"type": "text", "text": part.get("text") or part["refusal"]}


def _open_reasoning(item: dict[str, Any], place: str) -> Block:
    try:
        sealed: Block = json.loads(base64.b64decode(item["encrypted_content"], validate=True))
        return {"type": "thinking", "thinking": sealed["thinking"], "signature": sealed["signature"]}
    except (KeyError, TypeError, ValueError):
        raise RequestRefused(
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. ({place})"
        ) from None


def check_tool_name(name: Any) -> None:
    """Refuse a function's name that OpenAI's formats do not allow. Raises `RequestRefused`."""
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise RequestRefused(f"Invalid name in 'tools': {name!r} does not match '^[a-zA-Z0-9_-]{{1,64}}$'.")


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    name, schema = tool.get("name"), tool.get("parameters")
    if tool.get("type") != "function":
        raise RequestRefused(f"Invalid 'tools.type': {tool.get('type')!r}.")
    check_tool_name(name)
    if not isinstance(schema, dict):
        raise RequestRefused(f"Invalid schema for function '{name}'.", code="invalid_function_parameters")
    closed = schema.get("additionalProperties") is False
    if tool.get("strict", True) and not (closed and set(schema.get("properties") or ()) == set(schema["required"])):
        raise RequestRefused(
            f"Invalid schema for function '{name}': 'additionalProperties' is required to be supplied and to be false.",
            code="invalid_function_parameters",
        )
    return {"name": name, "description": tool["description"], "input_schema": schema}


# -- a reply ----------------------------------------------------------------------------------------------------------


def _items(message: dict[str, Any], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    encrypts = _INCLUDE in (body.get("include") or ())
    sums_up = (body.get("reasoning") or {}).get("summary") is not None
    stem = message["id"].removeprefix("msg_")
    refuses = message["stop_reason"] == "refusal"
    for at, block in enumerate(message["content"]):
        match block["type"]:
            case "thinking":
                item: dict[str, Any] = {"id": f"rs_{stem}_{at}", "type": "reasoning", "summary": []}
                if sums_up:
                    item["summary"] = [{"type": "summary_text", "text": block["thinking"]}]
                if encrypts:
                    sealed = {"thinking": block["thinking"], "signature": block["signature"]}
                    item["encrypted_content"] = base64.b64encode(encode_json(sealed)).decode()
                yield item
            case "text":
                part = {"type": "output_text", "annotations": [], "logprobs": [], "text": block["text"]}
                if refuses:
                    part = {"type": "refusal", "refusal": block["text"]}
                yield {
                    "id": f"msg_{stem}_{at}",
                    "type": "message",
                    "status": "completed",
                    "content": [part],
                    "role": "assistant",
                    "phase": "commentary" if message["stop_reason"] == "tool_use" else "final_answer",
                }
            case "tool_use":
                yield {
                    "id": f"fc_{stem}_{at}",
                    "type": "function_call",
                    "status": "completed",
                    "arguments": json.dumps(block["input"]),
                    "call_id": block["id"],
                    "name": block["name"],
                }


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    here = {"output_index": index, "item_id": item["id"]}
    field, nothing = {"message": ("content", []), "reasoning": ("summary", [])}.get(item["type"], ("arguments", ""))
    # The encrypted content of an item that has only begun is not the one that counts.
    early = {"encrypted_content": "early"} if "encrypted_content" in item else {}
    begun = {**item, field: nothing, **early, **({"status": "in_progress"} if "status" in item else {})}
    yield "response.output_item.added", {"output_index": index, "item": begun}
    match item["type"]:
        case "message":
            part = item["content"][0]
            kind, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
            place = {**here, "content_index": 0}
            yield "response.content_part.added", {**place, "part": {**part, field: ""}}
            for piece in cut_pieces(part[field]):
                yield f"response.{kind}.delta", {**place, "delta": piece}
            yield f"response.{kind}.done", {**place, field: part[field]}
            yield "response.content_part.done", {**place, "part": part}
        case "reasoning":
            for at, part in enumerate(item["summary"]):
                place = {**here, "summary_index": at}
                yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
                for piece in cut_pieces(part["text"]):
                    yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
                yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**place, "part": part}
        case _:
            for piece in cut_pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**here, "delta": piece}
            yield "response.function_call_arguments.done", {**here, "arguments": item["arguments"]}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _head(message: dict[str, Any]) -> dict[str, Any]:
    ids = message["id"].replace("msg_", "resp_")
    return {"id": ids, "object": "response", "created_at": 0, "model": message["model"], "store": False}


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    given, output = usage["input_tokens"] + read + written, usage["output_tokens"]
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + output,
    }
