"""Requests in the format of OpenAI's Responses, made from a conversation of the Messages API's blocks.

Source: https://platform.openai.com/docs/api-reference/responses/create. Nothing is stored at the vendor: each request holds the whole
conversation, and a model's reasoning comes and goes encrypted, as items that the journal keeps beside its blocks.
"""

from __future__ import annotations

import hashlib
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
from swarm.models.vendors import Vendor

_LONGEST_ID = 64
_LEAST_OUTPUT = 16
"""The shortest reply that a request may ask for, in tokens."""


class ResponsesEncoder(MessageEncoder):
    """Encodes the requests of one conversation; a message is encoded once."""

    wire = "responses"

    def __init__(self, vendor: Vendor, model: str) -> None:
        super().__init__(vendor, model)
        self._cache: tuple[bytes, str] | None = None
        """The first message, and the name of the cache."""
        self._takes_encrypted = True
        """Whether the server takes encrypted reasoning."""

    def encode(self, request: ModelRequest, *, max_output: int) -> bytes:
        """Encode a streaming request's body. Raises `ValueError` or `TypeError` for invalid JSON."""
        lacks = request.facts.lacks
        if self._takes_encrypted == ("thinking" in lacks):
            self._takes_encrypted = "thinking" not in lacks
            self._encode_again()
        items = self._conversation(request)
        fields: dict[str, Any] = {
            "model": self._model,
            "max_output_tokens": max(_LEAST_OUTPUT, bounded_output(request, max_output)),
            "stream": True,
            "store": False,
        }
        reasoning: dict[str, Any] = {}
        if request.effort is not None and "effort" not in lacks:
            reasoning["effort"] = EFFORTS.get(request.effort, request.effort)
        if "thinking" not in lacks:
            fields["include"] = ["reasoning.encrypted_content"]
            if "summary" not in lacks:
                reasoning["summary"] = "auto"
        if reasoning:
            fields["reasoning"] = reasoning
        if request.tools and not request.tools_allowed and "tool_choice" not in lacks:
            fields["tool_choice"] = "none"
        system, tools = self._system(request), self._tools(request)
        if "cache_control" not in lacks:
            fields["prompt_cache_key"] = self._name_cache(system, tools)
        return b"".join(
            (
                encode(fields)[:-1],
                b',"instructions":%s' % system if system else b"",
                tools,
                b',"input":[',
                items,
                b"]}",
            )
        )

    def _name_cache(self, system: bytes, tools: bytes) -> str:
        """Name the conversation for the vendor's prompt cache: equal for all its requests, on every worker."""
        if self._cache is None or self._cache[0] is not self._first:
            digest = hashlib.sha256(b"\0".join((self._name.encode(), system, tools, self._first)))
            self._cache = (self._first, digest.hexdigest()[:32])
        return self._cache[1]

    def _tool_list(self, tools: list[dict[str, Any]]) -> Any:
        return list(map(_tool, tools))

    def _message(self, role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        return self._reply(blocks) if role == "assistant" else _said(role, blocks)

    def _reply(self, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        own = [self._own(block) for block in blocks]
        # Servers refuse reasoning without the item that it led to, as of a reply that was too long.
        last = max((at for at, item in enumerate(own) if item is not None and item["type"] != "reasoning"), default=-1)
        for at, (block, item) in enumerate(zip(blocks, own, strict=True)):
            if item is not None:
                if item["type"] != "reasoning" or (at < last and self._is_readable(item)):
                    yield _fill(item, block)
            elif block["type"] == "tool_use":
                yield {
                    "type": "function_call",
                    "call_id": short_id(block["id"]),
                    "name": block["name"],
                    "arguments": encode_text(block["input"]),
                }
            elif block["type"] in ("text", "compaction") and (text := block.get("text") or block.get("content")):
                yield {"role": "assistant", "content": text}

    def _is_readable(self, reasoning: dict[str, Any]) -> bool:
        """Whether the server can read its reasoning again. It stores none, and would look for an item without content."""
        if reasoning.get("encrypted_content"):
            return self._takes_encrypted
        return bool(reasoning.get("content"))


def short_id(call_id: str) -> str:
    """Return a call's id as the format allows it, the same for the call and its result."""
    return shorten_id(call_id, _LONGEST_ID)


def strip_item(item: dict[str, Any], text: str | None) -> dict[str, Any]:
    """Return an output item without its words, where the block beside it holds the same ones; `_fill` adds them again."""
    match item:
        case {"type": "message", "content": [{"type": "output_text", "text": said} as part]} if said == text:
            return {**item, "content": [{name: value for name, value in part.items() if name != "text"}]}
        case {"type": "function_call", "arguments": str(arguments)} if arguments == text:
            return {name: value for name, value in item.items() if name != "arguments"}
    return item


def _fill(item: dict[str, Any], block: Block) -> dict[str, Any]:
    match item:
        case {"type": "function_call"}:
            arguments = item["arguments"] if "arguments" in item else encode_text(block["input"])
            return {**item, "arguments": arguments, "call_id": short_id(block["id"])}
        case {"type": "message", "content": [{"type": "output_text"} as part]} if "text" not in part:
            return {**item, "content": [{**part, "text": block["text"]}]}
    return item


def _said(role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block["type"] == "tool_result":
            yield {"type": "function_call_output", "call_id": short_id(block["tool_use_id"]), "output": _output(block)}
    if parts := [_part(block) for block in blocks if block["type"] != "tool_result"]:
        yield {"role": role, "content": parts}


def _output(block: Block) -> str | list[dict[str, Any]]:
    parts = list(map(_part, blocks_of(block.get("content") or "")))
    if any(part["type"] == "input_image" for part in parts):
        return [{"type": "input_text", "text": "Error:"}, *parts] if block.get("is_error") else parts
    text = "\n\n".join(part["text"] for part in parts)
    return f"Error: {text}" if block.get("is_error") else text or "(empty)"


def _part(block: Block) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"type": "input_text", "text": block["text"]}
        case "image":
            return {"type": "input_image", "image_url": data_url(block["source"]), "detail": "auto"}
        case "compaction":
            return {"type": "input_text", "text": str(block.get("content") or "")}
        case _:
            return {"type": "input_text", "text": describe_unreadable(block)}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    # Without `strict: false` all arguments would be required.
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["input_schema"],
        "strict": False,
    }
