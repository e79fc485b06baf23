"""The API's own rules for a request, checked before anything is answered.

A loop that breaks them works against a lenient double and fails against the real API; here it fails in the test.
Every check is linear in the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.wire import sign_thinking

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TOOL_USE_ID = re.compile(r"[A-Za-z0-9_-]+")
_MAX_BREAKPOINTS = 4
_CONTENT_TYPES = {
    "user": {"text", "tool_result", "image", "document", "search_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking", "compaction"},
    "system": {"text"},
}


def check_request(body: Any, *, counting: bool = False, may_end_with_assistant: bool = False) -> dict[str, Any]:
    """Return `body` if the API would accept it; raises `RequestRefused`. `counting` is for `count_tokens`."""
    if not isinstance(body, dict):
        raise RequestRefused("the body must be a JSON object")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise RequestRefused("model: Field required")
    if not counting:
        tokens = body.get("max_tokens")
        if tokens is None:
            raise RequestRefused("max_tokens: Field required")
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise RequestRefused("max_tokens: must be a whole number that is not negative")
    _check_system(body.get("system"))
    _check_tools(body)
    _check_messages(body.get("messages"), may_end_with_assistant)
    _check_cache_marks(body)
    _check_deferred(body)
    return body


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise RequestRefused("system: must be a string or a list of text blocks")
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise RequestRefused(f"system.{index}: must be a text block")
        _check_text(block.get("text"), f"system.{index}")


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise RequestRefused("tools: must be a list")
    names: set[str] = set()
    for index, tool in enumerate(tools or []):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise RequestRefused(f"tools.{index}.name: must match {_TOOL_NAME.pattern}, not {name!r}")
        if name in names:
            raise RequestRefused(f"tools.{index}.name: tool names must be unique, and {name!r} is there twice")
        names.add(name)
        if tool.get("type") in (None, "custom"):
            schema = tool.get("input_schema")
            if not isinstance(schema, dict) or schema.get("type") != "object":
                raise RequestRefused(f'tools.{index}.input_schema: must be a JSON schema with "type": "object"')
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not isinstance(choice, dict) or choice.get("type") not in ("auto", "any", "tool", "none"):
        raise RequestRefused("tool_choice.type: must be auto, any, tool or none")
    if not tools:
        raise RequestRefused("tool_choice: may only be given together with `tools`")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise RequestRefused(f"tool_choice.name: no tool is called {choice.get('name')!r}")


def _check_messages(messages: Any, may_end_with_assistant: bool) -> None:
    if not isinstance(messages, list) or not messages:
        raise RequestRefused("messages: at least one message is required")
    seen: set[str] = set()
    """Ids of every tool call so far."""
    open_calls: dict[str, str] = {}
    """Calls of the latest assistant turn that have no result yet, with the place of the call."""
    answered: set[str] = set()
    previous = ""
    results_are_over = False
    for index, message in enumerate(messages):
        at = f"messages.{index}"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _CONTENT_TYPES:
            raise RequestRefused(f"{at}.role: must be user or assistant, not {role!r}")
        if index == 0 and role != "user" and not _is_summary(message):
            raise RequestRefused("messages.0.role: the first message must be the user's")
        if role != previous:  # neighbours of one role are combined into one turn
            if open_calls and previous != "assistant":
                _refuse_unanswered(open_calls)
            if role == "assistant":
                answered = set()
            results_are_over = False
            previous = role
        for place, block in _blocks(message, at, role):
            kind = block["type"]
            if kind == "compaction":
                _check_place(index, block, messages)
            elif kind == "tool_use":
                _check_tool_use(block, place, seen)
                open_calls[block["id"]] = place
            elif kind == "tool_result":
                call_id = block.get("tool_use_id")
                if call_id in answered:
                    raise RequestRefused(f"{place}: each tool_use must have a single result; {call_id} has several")
                if call_id not in open_calls:
                    raise RequestRefused(
                        f"{place}: unexpected `tool_use_id` in a `tool_result` block: {call_id}; the previous message "
                        "must hold the corresponding `tool_use` block"
                    )
                if results_are_over:
                    raise RequestRefused(f"{place}: `tool_result` blocks must come before any other content")
                _check_tool_result(block, place)
                answered.add(call_id)
                del open_calls[call_id]
            else:
                results_are_over = True
    if open_calls and previous != "assistant":
        _refuse_unanswered(open_calls)
    if previous == "assistant" and not _is_summary(messages[-1]) and not (may_end_with_assistant and not open_calls):
        raise RequestRefused(
            "messages: prefilling a reply is not supported; the conversation must end with a user message"
        )


def _is_summary(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and [block.get("type") for block in content if isinstance(block, dict)] == [
        "compaction"
    ]


def _check_place(index: int, block: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    if index or messages[0]["content"][0] is not block:
        raise RequestRefused(
            f"messages.{index}: a `compaction` block must be the first of the conversation, and the only one",
            code=f"compaction_block_{'ambiguous' if _is_summary(messages[0]) else 'misplaced'}",
        )


def _refuse_unanswered(open_calls: dict[str, str]) -> None:
    raise RequestRefused(
        f"{next(iter(open_calls.values()))}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(open_calls)}; each `tool_use` must have its `tool_result` in the next message"
    )


def _blocks(message: dict[str, Any], at: str, role: str) -> Iterator[tuple[str, dict[str, Any]]]:
    content = message.get("content")
    if isinstance(content, str):
        _check_text(content, f"{at}.content")
        yield f"{at}.content", {"type": "text", "text": content}
        return
    if not isinstance(content, list) or not content:
        raise RequestRefused(f"{at}.content: messages must have non-empty content")
    for number, block in enumerate(content):
        place = f"{at}.content.{number}"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _CONTENT_TYPES[role]:
            raise RequestRefused(f"{place}: a {role} message may not hold a block of type {kind!r}")
        if kind == "text":
            _check_text(block.get("text"), place)
        elif kind == "thinking" and str(block.get("signature")).partition(".")[0] != sign_thinking(
            str(block.get("thinking"))
        ):
            raise RequestRefused(f"{place}: invalid `signature` in `thinking` block; return it exactly as received")
        yield place, block


def _check_text(text: Any, place: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise RequestRefused(f"{place}: text content must be a string that is not empty")


def _check_tool_use(block: dict[str, Any], place: str, seen: set[str]) -> None:
    call_id = block.get("id")
    if not isinstance(call_id, str) or not _TOOL_USE_ID.fullmatch(call_id):
        raise RequestRefused(f"{place}.id: must match {_TOOL_USE_ID.pattern}, not {call_id!r}")
    if call_id in seen:
        raise RequestRefused(f"{place}.id: `tool_use` ids must be unique, and {call_id} is there twice")
    seen.add(call_id)
    if not isinstance(block.get("name"), str) or not block["name"]:
        raise RequestRefused(f"{place}.name: Field required")
    if not isinstance(block.get("input"), dict):
        raise RequestRefused(f"{place}.input: must be an object")


def _check_deferred(body: dict[str, Any]) -> None:
    """Tools whose schemas are kept back until a result refers to them."""
    tools: list[dict[str, Any]] = body.get("tools") or []
    names = {tool["name"] for tool in tools}
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    if tools and len(deferred) == len(tools):
        raise RequestRefused("tools: at least one tool must not have defer_loading")
    if any("cache_control" in tool for tool in deferred):
        raise RequestRefused("tools: a tool with defer_loading cannot have cache_control")
    for place, part in _mark_holders(body):
        if part.get("type") == "tool_reference" and part.get("tool_name") not in names:
            raise RequestRefused(f"{place}: no tool is called {part.get('tool_name')!r}")


def _check_tool_result(block: dict[str, Any], place: str) -> None:
    content = block.get("content")
    if content is not None and not isinstance(content, str | list):
        raise RequestRefused(f"{place}.content: must be a string or a list of blocks")
    if block.get("is_error") and not content:
        raise RequestRefused(f"{place}: content cannot be empty if `is_error` is true")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise RequestRefused(f"{place}.content.{number}: must be a content block")
        if part["type"] == "text":
            _check_text(part.get("text"), f"{place}.content.{number}")


def _check_cache_marks(body: dict[str, Any]) -> None:
    count, shorter_seen_at = 0, ""
    for place, holder in _mark_holders(body):
        mark = holder.get("cache_control")
        if mark is None:
            continue
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            raise RequestRefused(f'{place}.cache_control: must be {{"type": "ephemeral"}}')
        if mark.get("ttl", "5m") not in ("5m", "1h"):
            raise RequestRefused(f"{place}.cache_control.ttl: must be 5m or 1h")
        if holder.get("type") in ("thinking", "redacted_thinking"):
            raise RequestRefused(f"{place}.cache_control: not permitted on a {holder['type']} block")
        if mark.get("ttl") == "1h" and shorter_seen_at:
            raise RequestRefused(f"{place}.cache_control: a ttl of 1h must not come after one of 5m")
        if mark.get("ttl", "5m") == "5m":
            shorter_seen_at = place
        count += 1
    if count > _MAX_BREAKPOINTS:
        raise RequestRefused(
            f"a maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided; found {count}"
        )


def _mark_holders(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that may carry a cache mark, in the order of the prefix."""
    for index, tool in enumerate(body.get("tools") or ()):
        yield f"tools.{index}", tool
    system = body.get("system")
    for index, block in enumerate(system if isinstance(system, list) else ()):
        yield f"system.{index}", block
    for index, message in enumerate(body["messages"]):
        content = message["content"]
        for number, block in enumerate(content if isinstance(content, list) else ()):
            yield f"messages.{index}.content.{number}", block
            inner = block.get("content") if block["type"] == "tool_result" else None
            for part_number, part in enumerate(inner if isinstance(inner, list) else ()):
                yield f"messages.{index}.content.{number}.content.{part_number}", part
    yield "request", {"cache_control": body.get("cache_control")}
