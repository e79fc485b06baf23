"""Requests in the format of OpenAI's Chat Completions, made from a conversation of the Messages API's blocks.

Source: https://platform.openai.com/docs/api-reference/chat/create. All servers of the format take texts
of the roles `system`, `user`, `assistant` and `tool`. A tool's result may hold text only, so its images follow in a message of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swarm.models import Block, ModelRequest
from swarm.models.message_encoder import (
    EFFORTS,
    MessageEncoder,
    blocks_of,
    data_url,
    describe_unreadable,
    encode,
    encode_text,
    shorten_id,
)
from swarm.models.request import bounded_output

_LONGEST_ID = 40


class ChatEncoder(MessageEncoder):
    """Encodes the requests of one conversation; a message is encoded once."""

    wire = "chat"

    def encode(self, request: ModelRequest, *, max_output: int) -> bytes:
        """Encode a streaming request's body. Raises `ValueError` or `TypeError` for invalid JSON."""
        lacks = request.facts.lacks
        fields: dict[str, Any] = {
            "model": self._model,
            self._vendor.longest: bounded_output(request, max_output),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.effort is not None and "effort" not in lacks:
            fields["reasoning_effort"] = EFFORTS.get(request.effort, request.effort)
        if request.tools and not request.tools_allowed and "tool_choice" not in lacks:
            fields["tool_choice"] = "none"
        texts = [self._conversation(request)]
        if system := self._system(request):
            texts.insert(0, b'{"role":"system","content":%s}' % system)
        return b"".join((encode(fields)[:-1], self._tools(request), b',"messages":[', b",".join(texts), b"]}"))

    def _tool_list(self, tools: list[dict[str, Any]]) -> Any:
        return list(map(_tool, tools))

    def _message(self, role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        return self._reply(blocks) if role == "assistant" else _said(role, blocks)

    def _reply(self, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        made: dict[str, Any] = {"role": "assistant"}
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [self._call(block) for block in blocks if block["type"] == "tool_use"]
        if text or not calls:
            made["content"] = text
        if calls:
            made["tool_calls"] = calls
            # Servers whose models reason between calls want their reasoning back under the name they gave it.
            for block in blocks:
                if block["type"] == "thinking" and (own := self._own(block)) is not None:
                    made[own] = made.get(own, "") + block["thinking"]
        if text or calls:
            yield made

    def _call(self, block: Block) -> dict[str, Any]:
        own = self._own(block)
        function = {"name": block["name"], "arguments": encode_text(block["input"])}
        made = own if own is not None else {"type": "function", "function": function}
        return {**made, "id": short_id(block["id"])}


def short_id(call_id: str) -> str:
    """Return a call's id as the format allows it, the same for the call and its result."""
    return shorten_id(call_id, _LONGEST_ID)


def _said(role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """Yield the messages that one of the user becomes: first the results of calls, which must follow the calls at once."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts += _parts(block)
            continue
        made = [part for one in blocks_of(block.get("content") or "") for part in _parts(one)]
        images = [part for part in made if part["type"] == "image_url"]
        text = _join(part for part in made if part["type"] == "text")
        text = f"Error: {text}" if block.get("is_error") else text
        call_id = short_id(block["tool_use_id"])
        yield {"role": "tool", "tool_call_id": call_id, "content": text or ("(see the image)" if images else "(empty)")}
        if images:
            parts += [{"type": "text", "text": f"The images of the result of {call_id}:"}, *images]
    if parts:
        plain = all(part["type"] == "text" for part in parts)
        yield {"role": role, "content": _join(parts) if plain else parts}


def _parts(block: Block) -> list[dict[str, Any]]:
    match block["type"]:
        case "text":
            return [{"type": "text", "text": block["text"]}]
        case "image":
            return [{"type": "image_url", "image_url": {"url": data_url(block["source"])}}]
        case "compaction":
            return [{"type": "text", "text": str(block.get("content") or "")}]
        case _:
            return [{"type": "text", "text": describe_unreadable(block)}]


def _join(parts: Any) -> str:
    return "\n\n".join(part["text"] for part in parts)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}
