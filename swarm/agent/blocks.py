"""Blocks of a conversation: their size, their text, their images. Pure."""

from __future__ import annotations

import json
from typing import Any

from swarm.agent import notes
from swarm.models import Block

BYTES_PER_TOKEN = 3.5
"""Bytes of a token in prompts, code and schemas. Low on purpose, so that estimates are rather too high."""
IMAGE_TOKENS = 1_600
_THINKING = ("thinking", "redacted_thinking")


def size_of(block: Block) -> int:
    """Return a block's size in bytes, as far as it matters for the number of its tokens."""
    if block.get("type") == "image":
        return round(IMAGE_TOKENS * BYTES_PER_TOKEN)
    content = block.get("content", block.get("text"))
    if isinstance(content, list):
        return sum(map(size_of, content))
    text = content if isinstance(content, str) else json.dumps(block)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_of(content: list[Block]) -> str:
    """Return the texts of a reply."""
    return "\n\n".join(block["text"] for block in content if block.get("type") == "text" and block.get("text"))


def holds_image(block: Block) -> bool:
    """Whether the block is an image or a result with one."""
    content = block.get("content")
    return block.get("type") == "image" or (isinstance(content, list) and any(map(holds_image, content)))


def hold_image(messages: list[dict[str, Any]]) -> bool:
    """Whether any message holds an image."""
    return any(holds_image(block) for message in messages for block in message["content"])


def drop_images(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with a note in place of the newest images.

    Images before the last reply were accepted once, so they are dropped only if no newer ones are left. Thinking depends on what precedes
    it:
    where older images go, later thinking goes, too.
    """
    if messages and any(map(holds_image, messages[-1]["content"])):
        return [*messages[:-1], {**messages[-1], "content": list(map(_without_image, messages[-1]["content"]))}]
    kept, changed = [], False
    for message in messages:
        content = message["content"]
        if changed and message["role"] == "assistant":
            content = [block for block in content if block.get("type") not in _THINKING]
        elif any(map(holds_image, content)):
            content, changed = list(map(_without_image, content)), True
        kept.append({**message, "content": content})
    return kept


def _without_image(block: Block) -> Block:
    if block.get("type") == "image":
        return {"type": "text", "text": notes.NO_IMAGE}
    return {**block, "content": [_without_image(part) for part in block["content"]]} if holds_image(block) else block


def replace_result(messages: list[dict[str, Any]], result: Block) -> int:
    """Replace a result in the last message and return how many bytes the conversation grew.

    No request may have held the old result yet.
    """
    grown = 0
    for message in messages[-1:]:
        for place, block in enumerate(message["content"]):
            if block.get("tool_use_id") == result["tool_use_id"]:
                grown += size_of(result) - size_of(block)
                message["content"][place] = result
    return grown
