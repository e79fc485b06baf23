"""Requests without the named differences between ours and pydantic-ai's. What is left must be equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("vendor_bodies.json")
DIFFERENCES = {
    "all": {
        "stream": "we ask for streams; it was asked for whole replies, which its bodies say by a field or a path",
        "arguments": "we return the model's own spelling of its arguments; it encodes them again",
        "failed results": "we say `Error:`, or use Gemini's documented key `error`; it wraps the text in JSON of its own",
        "texts": "we join texts that stand side by side; it sends each alone or as a list of parts",
    },
    "chat": {
        "images of results": "we say whose they are; it says so in other words",
        "system prompt": "the same text stands first in both",
    },
    "responses": {
        "prompt_cache_key": "we name each conversation, so that its requests find their cache",
        "reasoning.summary": "we ask to see the thoughts",
        "whole items": "we return an item with its `status`, `phase` and `logprobs`; it rebuilds it from the parts that it knows",
    },
    "gemini": {
        "includeThoughts": "we ask to see the thoughts",
        "VALIDATED, TEXT": "it asks to hold calls to their schemas and for text alone; both are what the server does by itself",
        "images of results": "we send them after the responses, which every model reads; it puts them inside for models of version 3",
        "signed texts": "a stream's signature comes on an empty part, which stays apart; pieces are equal when joined",
    },
}
"""Why the two differ, by format."""


def plain(wire: str, body: dict[str, Any]) -> Any:
    """Return a request as a value that is equal for requests that differ only as `DIFFERENCES` says."""
    match wire:
        case "chat":
            return _plain_chat(body)
        case "responses":
            return _plain_responses(body)
    return _plain_gemini(body)


def digest(value: Any) -> str:
    """Return a short digest of a plain request."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def read_kept() -> dict[str, list[str]]:
    """Return the kept digests of the oracle's requests, by format."""
    kept: dict[str, list[str]] = json.loads(KEPT.read_text())
    return kept


def _plain_chat(body: dict[str, Any]) -> Any:
    said = []
    for message in body["messages"]:
        made: dict[str, Any] = {"role": message["role"], "content": _joined(message.get("content"))}
        if calls := message.get("tool_calls"):
            made["calls"] = [
                [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])] for call in calls
            ]
        if "tool_call_id" in message:
            made["call"] = message["tool_call_id"]
        said.append(made)
    return {
        "model": body["model"],
        "longest": body.get("max_completion_tokens") or body.get("max_tokens"),
        "tools": [
            {name: tool["function"][name] for name in ("name", "description", "parameters")} for tool in body["tools"]
        ],
        "messages": _merged(said),
    }


def _plain_responses(body: dict[str, Any]) -> Any:
    assert body["store"] is False and body["include"] == ["reasoning.encrypted_content"]
    said: list[dict[str, Any]] = []
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                said.append({"role": item["role"], "content": _joined(item["content"]), "id": item.get("id")})
            case "reasoning":
                said.append({name: item[name] for name in ("id", "summary", "encrypted_content")})
            case "function_call":
                made = {name: item.get(name) for name in ("id", "call_id", "name")}
                said.append({**made, "arguments": json.loads(item["arguments"])})
            case _:
                said.append({"call": item["call_id"], "content": _joined(item["output"])})
    return {
        "model": body["model"],
        "longest": body["max_output_tokens"],
        "instructions": body["instructions"],
        "tools": body["tools"],
        "input": _merged(said),
    }


def _plain_gemini(body: dict[str, Any]) -> Any:
    said = []
    for content in body["contents"]:
        images = [_plain_base64(part["inlineData"]["data"]) for part in content["parts"] if "inlineData" in part]
        parts = [part for part in content["parts"] if "inlineData" not in part]
        made = list(_gemini_parts(parts, images))
        said.append({"role": content["role"], "parts": made, "images": images})
    tools = [
        {name: value for name, value in tool.items() if name in ("name", "description")}
        | {"schema": tool.get("parametersJsonSchema") or tool.get("parameters_json_schema")}
        for group in body["tools"]
        for tool in group["functionDeclarations"]
    ]
    return {
        "longest": body["generationConfig"]["maxOutputTokens"],
        "system": _joined(body["systemInstruction"]["parts"]),
        "tools": tools,
        "contents": list(_merged_contents(said)),
    }


def _gemini_parts(parts: Iterable[dict[str, Any]], images: list[str | None]) -> Iterator[Any]:
    words, signature = "", None
    for part in parts:
        if "text" in part and not part.get("thought"):
            if not part["text"].startswith("The images of the result of "):
                words += part["text"]
            signature = _plain_base64(part.get("thoughtSignature")) or signature
            continue
        if words or signature:
            yield [words, signature]
        words, signature = "", None
        if "text" in part:
            yield ["thought", part["text"]]
        elif call := part.get("functionCall"):
            yield [call["id"], call["name"], call["args"], _plain_base64(part.get("thoughtSignature"))]
        else:
            answer = part["functionResponse"]
            images += [_plain_base64(one["inline_data"]["data"]) for one in answer.get("parts", ())]
            yield [answer["id"], answer["name"], _told(next(iter(answer["response"].values())))]
    if words or signature:
        yield [words, signature]


def _merged_contents(said: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the contents; those of the user that stand side by side are one."""
    last: dict[str, Any] | None = None
    for content in said:
        if last is not None and last["role"] == content["role"] == "user":
            last["parts"] += content["parts"]
            last["images"] += content["images"]
            continue
        if last is not None:
            yield last
        last = content
    if last is not None:
        yield last


def _merged(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages; texts of one role that stand side by side are one."""
    made: list[dict[str, Any]] = []
    for message in said:
        last = made[-1] if made else {}
        alike = {"role", "content"} <= set(message) and set(message) == set(last) and last["role"] == message["role"]
        if alike and message.get("id") is None and last.get("id") is None and "calls" not in last:
            last["content"] = [
                "".join([last["content"][0], message["content"][0]]),
                last["content"][1] + message["content"][1],
            ]
        else:
            made.append(message)
    return made


def _joined(content: Any) -> list[Any]:
    """Return a content's words as one text, and its images."""
    if content is None or isinstance(content, str):
        return [_told(content or ""), []]
    words, images = [], []
    for part in content:
        if part["type" if "type" in part else "text"] in ("image_url", "input_image"):
            url = part["image_url"]
            images.append(url if isinstance(url, str) else url["url"])
        elif not _names_images(part["text"]):
            words.append(part["text"])
    return [_told("".join(words)), images]


def _plain_base64(text: str | None) -> str | None:
    """Google's SDK writes the alphabet of addresses; its servers read both."""
    return text and text.replace("-", "+").replace("_", "/")


def _names_images(text: str) -> bool:
    return text.startswith(("The images of the result of ", "See file ", "<pyai:tool_result ", "</pyai:tool_result>"))


def _told(words: str) -> str:
    """Return a result's words without the marks of a failure, and without the breaks between joined texts."""
    try:
        value = json.loads(words)
    except ValueError:
        value = None
    if isinstance(value, dict) and set(value) == {"error"}:
        words = str(value["error"])
    if isinstance(value, list):
        words = "".join(one for one in value if isinstance(one, str) and not _names_images(one))
    return words.removeprefix("Error:").replace("\n\n", "").strip()
