"""Renders a function's return value for the model, as JSON, so that it can come from another process."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from swarm.core.errors import ToolError

NOTHING = "(no output)"


@dataclass(frozen=True)
class ToolImage:
    """An image for the model. A function returns one, or a list of images and texts."""

    data: bytes
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"] = "image/png"


class Rendered(BaseModel):
    """A rendered result."""

    text: str
    blocks: list[dict[str, Any]] | None = None
    """Content blocks, if the result is more than text."""


def render(value: object) -> Rendered:
    """Render a return value: text unchanged, images as blocks, other values as JSON. Raises `ToolError` if that fails."""
    parts: Sequence[object] = value if isinstance(value, list) else [value]
    if not any(isinstance(part, ToolImage) for part in parts):
        return Rendered(text=_text_of(value))
    blocks = [_block_of(part) for part in parts]
    text = "\n".join(str(block.get("text") or f"[{block['source']['media_type']}]") for block in blocks)
    return Rendered(text=text, blocks=blocks)


def _text_of(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, str):
        return value
    try:
        return to_json(value, by_alias=True).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise ToolError(f"it returned a {type(value).__name__} that cannot be written as JSON: {error}") from error


def _block_of(part: object) -> dict[str, Any]:
    if not isinstance(part, ToolImage):
        return {"type": "text", "text": _text_of(part)}
    data = base64.b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}
