"""Requests in the format of Google's Gemini API, made from a conversation of the Messages API's blocks.

Source: https://ai.google.dev/api/generate-content. A function's response is an object without images, so those follow as parts of
their own. Models sign the parts in which their thoughts went on: each signature goes back on its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swarm.models import Block, ModelRequest
from swarm.models.message_encoder import MessageEncoder, blocks_of, describe_unreadable, encode
from swarm.models.request import bounded_output
from swarm.models.vendors import Vendor

UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""The documented stand-in for the signature of a call that another model made: `skip_thought_signature_validator`."""
_LEVELS = {"low": "LOW", "medium": "MEDIUM"}


class GeminiEncoder(MessageEncoder):
    """Encodes the requests of one conversation; a message is encoded once."""

    wire = "gemini"

    def __init__(self, vendor: Vendor, model: str) -> None:
        super().__init__(vendor, model)
        self._functions: dict[str, str] = {}
        """The function of each call so far, which its response must name."""

    def encode(self, request: ModelRequest, *, max_output: int) -> bytes:
        """Encode a streaming request's body. Raises `ValueError` or `TypeError` for invalid JSON."""
        lacks = request.facts.lacks
        bounds: dict[str, Any] = {"maxOutputTokens": bounded_output(request, max_output)}
        thinking: dict[str, Any] = {}
        if "thinking" not in lacks:
            if "summary" not in lacks:
                thinking["includeThoughts"] = True
            if request.effort is not None and "effort" not in lacks:
                thinking["thinkingLevel"] = _LEVELS.get(request.effort, "HIGH")
        if thinking:
            bounds["thinkingConfig"] = thinking
        fields: dict[str, Any] = {"generationConfig": bounds}
        if request.tools and not request.tools_allowed and "tool_choice" not in lacks:
            fields["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
        system = self._system(request)
        return b"".join(
            (
                encode(fields)[:-1],
                b',"systemInstruction":{"parts":[{"text":%s}]}' % system if system else b"",
                self._tools(request),
                b',"contents":[',
                self._conversation(request),
                b"]}",
            )
        )

    def _tool_list(self, tools: list[dict[str, Any]]) -> Any:
        return [{"functionDeclarations": list(map(_declare, tools))}]

    def _message(self, role: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        if role == "assistant":
            contents = [("model", list(self._reply(blocks)))]
        else:
            # Contents with responses of functions are read as the model's own, so nothing else may stand there.
            contents = [("user", parts) for parts in self._said(blocks)]
        yield from ({"role": said, "parts": parts} for said, parts in contents if parts)

    def _reply(self, blocks: list[Block]) -> Iterator[dict[str, Any]]:
        signed = False
        for block in blocks:
            own = self._own(block)
            match block["type"]:
                case "tool_use":
                    self._functions[block["id"]] = block["name"]
                    call = {"name": block["name"], "args": block["input"], "id": block["id"]}
                    part = {"functionCall": call} if own is None else own | {"functionCall": call | own["functionCall"]}
                    # Servers refuse a reply whose first call is unsigned.
                    if not signed and "thoughtSignature" not in part:
                        part = {**part, "thoughtSignature": UNSIGNED}
                    signed = True
                    yield part
                case "text" | "thinking" as kind if own is not None:
                    yield from _split(block[kind], own["parts"], {"thought": True} if kind == "thinking" else {})
                case "text" | "compaction" if text := block.get("text") or block.get("content"):
                    yield {"text": text}

    def _said(self, blocks: list[Block]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the responses of functions, as many as there were calls, and all else, with the images of the results."""
        responses, others = list[dict[str, Any]](), list[dict[str, Any]]()
        for block in blocks:
            if block["type"] != "tool_result":
                others.append(_part(block))
                continue
            parts = list(map(_part, blocks_of(block.get("content") or "")))
            images = [part for part in parts if "text" not in part]
            text = "\n\n".join(part["text"] for part in parts if "text" in part)
            told = text or ("(see the image)" if images else "(empty)")
            call_id = block["tool_use_id"]
            response = {"error" if block.get("is_error") else "output": told}
            name = self._functions.get(call_id, "unknown")
            responses.append({"functionResponse": {"name": name, "response": response, "id": call_id}})
            if images:
                others += [{"text": f"The images of the result of {call_id}:"}, *images]
        return responses, others


def _split(text: str, kept: list[dict[str, Any]], mark: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of which a text came: one with a signature must not be joined to another."""
    begin = 0
    for at, part in enumerate(kept):
        end = begin + part["length"] if at < len(kept) - 1 else len(text)
        signature = {name: value for name, value in part.items() if name != "length"}
        if end > begin or signature:
            yield {"text": text[begin:end], **mark, **signature}
        begin = end


def _part(block: Block) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "image" if url := block["source"].get("url"):
            return {"fileData": {"fileUri": url}}
        case "image":
            return {"inlineData": {"mimeType": block["source"]["media_type"], "data": block["source"]["data"]}}
        case "compaction":
            return {"text": str(block.get("content") or "")}
        case _:
            return {"text": describe_unreadable(block)}


def _declare(tool: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parametersJsonSchema": tool["input_schema"],
    }
