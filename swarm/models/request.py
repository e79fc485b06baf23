"""Builds the body of a Messages API request and places the marks of the prompt cache. Pure.

An entry of the cache covers everything up to a marked block, in the order tools, system, messages. The marks let a
history of n turns read all but its newest turn from the cache:

- the end of the system prompt (which covers the tools): shared by all agents of the same definition;
- the end of the previous request, where that request put its last mark, so it is found exactly;
- the end of this request, for the next one to find;
- in the first request, the end of a long first block: siblings with the same instruction files read them from there;
- in a newest turn longer than the server's lookback, one more, so that a later request with a different end
  can still reach all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swarm.models import Block, ModelRequest
from swarm.models.facts import ModelFacts, Part

LOOKBACK_BLOCKS = 20
"""How many blocks, the marked one included, the server looks back from a mark for an entry."""

MARK = {"type": "ephemeral"}
OPENING_BYTES = 4_096
"""A first block of at least this size gets a mark of its own."""
_MARKABLE = frozenset(
    {
        "text",
        "image",
        "document",
        "search_result",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "compaction",
    }
)


def build_request(request: ModelRequest, *, max_output: int) -> dict[str, Any]:
    """The arguments of `messages.create` for one request. `request` itself is not changed."""
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": bounded_output(request, max_output),
        "messages": _mark_messages([sendable(message) for message in request.messages]),
    }
    if request.system.strip():
        body["system"] = [marked({"type": "text", "text": request.system})]
    if request.tools:
        # Without a system prompt the tools need a mark of their own.
        body["tools"] = list(request.tools) if "system" in body else [*request.tools[:-1], marked(request.tools[-1])]
        if not request.tools_allowed:
            body["tool_choice"] = {"type": "none"}
    if request.effort is not None:
        body["output_config"] = {"effort": request.effort}
    return body


def summary_order(instructions: str) -> dict[str, Any]:
    """The part of a request that asks for a summary instead of a reply."""
    return {"type": "summarize", "instructions": instructions}


def holds_summary(messages: list[dict[str, Any]]) -> bool:
    """Whether the conversation begins with a summary of earlier messages."""
    content = messages[0]["content"] if messages else ""
    return isinstance(content, list) and bool(content) and content[0].get("type") == "compaction"


def bounded_output(request: ModelRequest, max_output: int) -> int:
    """The longest reply to ask for, given the most that the table says the model can write."""
    return max(1, min(request.max_tokens, max_output, request.facts.max_output or max_output))


def sendable(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with a list of unmarked blocks, which is empty for a silent reply.

    Replies may be empty or hold empty texts. The API refuses requests with such a reply, so every later request would fail.
    Most messages of a long conversation need no change and are not copied.
    """
    content = message["content"]
    blocks: list[Block] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if blocks is content and blocks and all(map(_is_fit, blocks)):
        return message
    kept = [unmarked(block) for block in blocks if not _is_empty_text(block) and not _is_foreign_thinking(block)]
    if message["role"] != "assistant":
        kept = kept or [unmarked(block) for block in blocks]
    return {**message, "content": kept}


def is_silent(message: dict[str, Any]) -> bool:
    """Whether a sendable message is an empty reply: unsent, but it ends the last request."""
    return message["role"] == "assistant" and not message["content"]


def _mark_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for m, b in marks_of(messages)[0]:
        content = messages[m]["content"]
        messages[m] = {**messages[m], "content": [*content[:b], marked(content[b]), *content[b + 1 :]]}
    return [message for message in messages if not is_silent(message)]


def marks_of(messages: list[dict[str, Any]]) -> tuple[set[tuple[int, int]], bool]:
    """Place up to three marks, each as (message, block), from the end backwards.

    A long conversation costs no more than a short one. The flag says whether one of the marks is where the last request ended: no later
    request marks anything before that one.
    """
    previous_end = next((m for m in range(len(messages) - 1, -1, -1) if messages[m]["role"] == "assistant"), 0)
    last = between = previous = None
    last_distance = distance = 0  # in blocks, from the end
    for m in range(len(messages) - 1, -1, -1):
        content = messages[m]["content"]
        for b in range(len(content) - 1, -1, -1):
            if _is_markable(content[b]):
                if last is None:
                    last, last_distance = (m, b), distance
                if m < previous_end:
                    previous = (m, b)
                    break
                if between is None and distance - last_distance >= LOOKBACK_BLOCKS - 1:
                    between = (m, b)
            distance += 1
        if previous is not None:
            break
    needs_between = previous is not None and distance - last_distance >= LOOKBACK_BLOCKS
    places = {last, between if needs_between else None, previous, _opening(messages) if previous is None else None}
    return {place for place in places if place is not None}, previous is not None


def _opening(messages: list[dict[str, Any]]) -> tuple[int, int] | None:
    """The first block, if other conversations may begin with it and then differ."""
    content = messages[0]["content"] if messages else []
    long = len(content) > 1 and len(str(content[0].get("text") or "")) >= OPENING_BYTES
    return (0, 0) if long and _is_markable(content[0]) else None


def _is_markable(block: Block) -> bool:
    return block.get("type") in _MARKABLE and not _is_empty_text(block)


def _is_fit(block: Block) -> bool:
    return "cache_control" not in block and "vendor" not in block and not _is_empty_text(block)


def _is_foreign_thinking(block: Block) -> bool:
    """Whether another vendor's model thought so: the Messages API takes signed thinking only."""
    return "vendor" in block and block.get("type") == "thinking"


def _is_empty_text(block: Block) -> bool:
    if block.get("type") != "text":
        return False
    text = str(block.get("text") or "")
    return not text or text.isspace()


def marked(block: Block) -> Block:
    """The block with a prompt cache mark."""
    return {**block, "cache_control": dict(MARK)}


def unmarked(block: Block) -> Block:
    """The block without a prompt cache mark and without another vendor's form of it."""
    if "cache_control" not in block and "vendor" not in block:
        return block
    return {key: value for key, value in block.items() if key not in ("cache_control", "vendor")}


def fit(body: dict[str, Any], facts: ModelFacts) -> dict[str, Any]:
    """Return a request's body without the parts that its server refuses."""
    for part in facts.lacks:
        body = _REMOVALS[part](body)
    return body


def _without_marks(body: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: [unmarked(part) for part in body[name]] for name in ("system", "tools") if name in body
    }
    messages = [{**message, "content": [*map(unmarked, message["content"])]} for message in body["messages"]]
    return {**body, **plain, "messages": messages}


def _without_thinking(body: dict[str, Any]) -> dict[str, Any]:
    kept = [
        {**message, "content": [block for block in message["content"] if "thinking" not in block["type"]]}
        for message in body["messages"]
    ]
    return {**body, "messages": [message for message in kept if message["content"]]}


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {key: value for key, value in body.items() if key != name}


_REMOVALS: dict[Part, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "cache_control": _without_marks,
    "effort": _without("output_config"),
    "summary": dict,
    "thinking": _without_thinking,
    "tool_choice": _without("tool_choice"),
}
