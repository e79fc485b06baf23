"""Requests in the format of OpenAI's Chat Completions, made from a conversation of the Messages API's blocks.

Source: https://platform.openai.com/docs/api-reference/chat/create. All servers of the format take texts
of the roles `system`, `user`, `assistant` and `tool`. A tool's result may hold text only, so its images follow in a message of the user.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from swarm.models import Block, ModelRequest
from swarm.models.request import bounded_output
from swarm.models.vendors import Vendor

_encode_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_LONGEST_ID = 40
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Levels of effort that not every server of the format knows."""


class ChatEncoder:
    """Encodes the requests of one conversation; a message is encoded once."""

    def __init__(self, vendor: Vendor, model: str) -> None:
        self._vendor, self._model = vendor, model
        self._encoded_tools: tuple[Any, bytes] | None = None
        self._messages: list[tuple[dict[str, Any], int, bytes]] = []
        """Each message with the number of its blocks, and its encoded form."""

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
            fields["reasoning_effort"] = _EFFORTS.get(request.effort, request.effort)
        if request.tools and not request.tools_allowed and "tool_choice" not in lacks:
            fields["tool_choice"] = "none"
        texts = [part for part in (self._system(request), *self._conversation(request)) if part]
        head = _encode_text(fields).encode()[:-1]
        return b"".join((head, self._tools(request), b',"messages":[', b",".join(texts), b"]}"))

    def _tools(self, request: ModelRequest) -> bytes:
        if self._encoded_tools is None or self._encoded_tools[0] is not request.tools:
            tools = [_tool(tool) for tool in request.tools if "input_schema" in tool]
            self._encoded_tools = (request.tools, b',"tools":%s' % _encode(tools) if tools else b"")
        return self._encoded_tools[1]

    def _system(self, request: ModelRequest) -> bytes:
        return _encode({"role": "system", "content": request.system}) if request.system.strip() else b""

    def _conversation(self, request: ModelRequest) -> Iterator[bytes]:
        for at, message in enumerate(request.messages):
            known = self._messages[at] if at < len(self._messages) else None
            if known is None or known[0] is not message or known[1] != len(message["content"]):
                del self._messages[at:]
                known = (message, len(message["content"]), self._message(message))
                self._messages.append(known)
            yield known[2]

    def _message(self, message: dict[str, Any]) -> bytes:
        content = message["content"]
        blocks: list[Block] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made = self._reply(blocks) if message["role"] == "assistant" else _said(message["role"], blocks)
        return b",".join(map(_encode, made))

    def _reply(self, blocks: list[Block]) -> list[dict[str, Any]]:
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
        return [made] if text or calls else []

    def _call(self, block: Block) -> dict[str, Any]:
        own = self._own(block)
        function = {"name": block["name"], "arguments": _encode_text(block["input"])}
        made = own if own is not None else {"type": "function", "function": function}
        return {**made, "id": short_id(block["id"])}

    def _own(self, block: Block) -> Any:
        """The vendor's own form of a block that its model made; None for others' blocks."""
        kept = block.get("vendor")
        return kept["item"] if kept and kept["name"] == f"{self._vendor.name}:{self._model}" else None


def short_id(call_id: str) -> str:
    """Return a call's id as the format allows it, the same for the call and its result."""
    if len(call_id) <= _LONGEST_ID:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode()).hexdigest()[:32]


def _said(role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """Yield the messages that one of the user becomes: first the results of calls, which must follow the calls at once."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts += _parts(block)
            continue
        content = block.get("content") or ""
        held: list[Block] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made = [part for one in held for part in _parts(one)]
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
            source = block["source"]
            url = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
            return [{"type": "image_url", "image_url": {"url": url}}]
        case "compaction":
            return [{"type": "text", "text": str(block.get("content") or "")}]
        case kind:
            return [{"type": "text", "text": f"(a part of the kind {kind}, which this model cannot read)"}]


def _join(parts: Any) -> str:
    return "\n\n".join(part["text"] for part in parts)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _encode(value: Any) -> bytes:
    return _encode_text(value).encode()
