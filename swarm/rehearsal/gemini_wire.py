"""The rehearsal in Google's Gemini API: requests become the Messages API's, and replies become responses with parts.

Requests are checked as strictly as the vendor's own server does where clients go wrong: unknown fields, roles, the number of responses
of functions, signatures. Signatures hold the thoughts: the server reads its own back, and refuses any others but the documented stand-in.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.responses_wire import mark_cache
from swarm.rehearsal.wire import cut_pieces, encode_json

_KNOWN = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent"}
_BOUNDS = {"maxOutputTokens", "thinkingConfig", "temperature", "topP", "topK", "stopSequences", "seed"}
_THINKING = {"includeThoughts", "thinkingLevel", "thinkingBudget"}
_LEVELS = (None, "MINIMAL", "LOW", "MEDIUM", "HIGH")
_PARTS = ("text", "inlineData", "fileData", "functionCall", "functionResponse")
_WORDS = "skip_thought_signature_validator"
_STAND_INS = (_WORDS, base64.b64encode(_WORDS.encode()).decode())
"""The documented stand-in for a signature, as its words and in base64."""
_PATH = re.compile(r".*/models/([^/:]+):(generateContent|streamGenerateContent)")
_ROOT = "/v1beta/models/"
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_REASONS = {"max_tokens": "MAX_TOKENS", "model_context_window_exceeded": "MAX_TOKENS", "refusal": "SAFETY"}
_SIGNATURE = "thoughtSignature"

Block = dict[str, Any]


def is_gemini(path: str) -> bool:
    """Whether requests to a path of this server are for content."""
    return path.startswith(_ROOT) and _PATH.fullmatch(path) is not None


def read_gemini(body: Any, path: str) -> Any:
    """Return the body as one of the Messages API. Raises `RequestRefused`."""
    if not isinstance(body, dict) or not isinstance(body.get("contents"), list) or not body["contents"]:
        raise RequestRefused("* GenerateContentRequest.contents: contents is not specified")
    _know(body, _KNOWN, "")
    bounds = body.get("generationConfig") or {}
    _know(bounds, _BOUNDS, " at 'generation_config'")
    thinking = bounds.get("thinkingConfig") or {}
    _know(thinking, _THINKING, " at 'generation_config.thinking_config'")
    if thinking.get("thinkingLevel") not in _LEVELS:
        raise RequestRefused("Invalid value at 'generation_config.thinking_config.thinking_level'")
    longest = bounds.get("maxOutputTokens", 65_536)
    if not isinstance(longest, int) or longest < 1:
        raise RequestRefused("Invalid value at 'generation_config.max_output_tokens' (TYPE_INT32)")
    found = _PATH.fullmatch(path)
    mode = ((body.get("toolConfig") or {}).get("functionCallingConfig") or {}).get("mode")
    tools = [tool for group in body.get("tools") or () for tool in group["functionDeclarations"]]
    system = "\n\n".join(part["text"] for part in (body.get("systemInstruction") or {}).get("parts", ()))
    return {
        "model": unquote(found[1]) if found else None,
        "max_tokens": longest,
        "stream": found is not None and found[2] == "streamGenerateContent",
        "messages": list(_messages(body["contents"])),
        **mark_cache(system),
        **({"tools": list(map(_tool, tools))} if tools else {}),
        **({"tool_choice": {"type": "none"}} if mode == "NONE" else {}),
    }


def build_content_response(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Build a reply in one piece, to a request with this body."""
    parts = list(_reply_parts(message, body))
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": _reason(message), "index": 0}
    return {**_head(message), "candidates": [candidate], "usageMetadata": _usage(message["usage"])}


def build_content_events(message: dict[str, Any], body: dict[str, Any]) -> list[bytes]:
    """Build the stream of a reply, to its end. The server tells the input at once, and the output as it grows."""
    whole = build_content_response(message, body)
    (candidate,) = whole["candidates"]
    pieces = [piece for part in candidate["content"]["parts"] for piece in _cut(part)]
    early = {**whole["usageMetadata"], "candidatesTokenCount": 1}
    events = []
    for at, piece in enumerate(pieces or [{"text": ""}]):
        last = at >= len(pieces) - 1
        told = {"content": {"role": "model", "parts": [piece]}, "index": 0}
        told |= {"finishReason": candidate["finishReason"]} if last else {}
        events.append({**whole, "candidates": [told], "usageMetadata": whole["usageMetadata"] if last else early})
    return [b"data: %b\r\n\r\n" % encode_json(event) for event in events]


def build_gemini_error(refusal: RequestRefused, status: int) -> dict[str, Any]:
    """Build an error body. The wait stands in it, and in no header."""
    message = refusal.message
    if message.startswith("prompt is too long") and (sizes := re.findall(r"\d+", message)):
        message = f"The input token count ({sizes[0]}) exceeds the maximum number of tokens allowed ({sizes[1]})."
    details = []
    if refusal.retry_after is not None:
        wait = f"{refusal.retry_after:.9f}".rstrip("0").rstrip(".") + "s"
        details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait}]
    named = {"code": status, "message": message, "status": _STATUSES.get(status, "UNKNOWN")}
    return {"error": {**named, **({"details": details} if details else {})}}


# -- a request --------------------------------------------------------------------------------------------------------


def _know(fields: Any, known: set[str], where: str) -> None:
    if unknown := set(fields) - known:
        raise RequestRefused(f'Invalid JSON payload received. Unknown name "{min(unknown)}"{where}: Cannot find field.')


def _messages(contents: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of which the contents are made."""
    calls: list[dict[str, Any]] = []
    previous = ""
    for at, content in enumerate(contents):
        role, parts = content.get("role"), content.get("parts")
        if role not in ("user", "model") or not parts:
            raise RequestRefused(f"Please use a valid role: user, model; contents[{at}].parts must not be empty.")
        if role == "model" and previous != "user":
            raise RequestRefused("Please ensure that function call turn comes immediately after a user turn.")
        previous = role
        for part in parts:
            if len(set(part) & set(_PARTS)) != 1:
                raise RequestRefused(
                    f"contents[{at}].parts: required oneof field 'data' must have one initialized field"
                )
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if answers and len(answers) < len(parts):
            raise RequestRefused(
                f"contents[{at}]: the other parts beside function responses are read as the model's own"
            )
        if len(answers) != len(calls):
            raise RequestRefused(
                "Please ensure that the number of function response parts is equal to the number of function call parts of "
                "the function call turn."
            )
        for answer, call in zip(answers, calls, strict=True):
            if (answer["name"], answer.get("id")) != (call["name"], call.get("id")):
                raise RequestRefused(f"contents[{at}]: the response of {answer['name']!r} answers no call before it")
        calls = [part["functionCall"] for part in parts if "functionCall" in part] if role == "model" else []
        blocks = list(_model_blocks(parts, at)) if role == "model" else list(map(_user_block, parts))
        yield {"role": "assistant" if role == "model" else "user", "content": blocks}
    if calls:
        raise RequestRefused("Please ensure that single turn requests end with a user role.")


def _model_blocks(parts: list[dict[str, Any]], at: int) -> Iterator[Block]:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and not first.get(_SIGNATURE):
        raise RequestRefused(f"Function call is missing a thought_signature in functionCall parts: contents[{at}].")
    sealed = [_open(part[_SIGNATURE]) for part in parts if part.get(_SIGNATURE) and part[_SIGNATURE] not in _STAND_INS]
    for thought in sealed:
        if thought["thinking"]:
            yield {"type": "thinking", "thinking": thought["thinking"], "signature": thought["signature"]}
    said = ""
    for part in parts:
        if part.get("thought"):
            continue
        if "text" in part:
            said += part["text"]
        elif call := part.get("functionCall"):
            if said:
                yield {"type": "text", "text": said}
            said = ""
            yield {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        else:
            raise RequestRefused(f"contents[{at}]: a model's content holds text and calls only")
    if said:
        yield {"type": "text", "text": said}


def _open(signature: str) -> dict[str, Any]:
    try:
        sealed: dict[str, Any] = json.loads(base64.b64decode(signature, validate=True))
        return {"thinking": sealed["thinking"], "signature": sealed["signature"]}
    except (KeyError, TypeError, ValueError):
        raise RequestRefused("Thought signature is not valid.") from None


def _user_block(part: dict[str, Any]) -> Block:
    if answer := part.get("functionResponse"):
        response = answer["response"]
        if not isinstance(response, dict):
            raise RequestRefused(
                "Invalid value at 'function_response.response' (type.googleapis.com/google.protobuf.Struct)"
            )
        told = (
            {"content": response["error"], "is_error": True} if "error" in response else {"content": response["output"]}
        )
        return {"type": "tool_result", "tool_use_id": answer["id"], **told}
    if image := part.get("inlineData"):
        source = {"type": "base64", "media_type": image["mimeType"], "data": image["data"]}
        return {"type": "image", "source": source}
    if file := part.get("fileData"):
        return {"type": "image", "source": {"type": "url", "url": file["fileUri"]}}
    return {"type": "text", "text": part["text"]}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    _know(tool, {"name", "description", "parametersJsonSchema"}, " at 'tools[0].function_declarations'")
    if not _FUNCTION.fullmatch(tool["name"]):
        raise RequestRefused(f"Invalid function name {tool['name']!r}: must start with a letter or an underscore.")
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parametersJsonSchema"]}


# -- a reply ----------------------------------------------------------------------------------------------------------


def _reply_parts(message: dict[str, Any], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    shows = ((body.get("generationConfig") or {}).get("thinkingConfig") or {}).get("includeThoughts")
    content = message["content"]
    thought = next((block for block in content if block["type"] == "thinking"), {"thinking": "", "signature": ""})
    sealed = {"thinking": thought["thinking"], "signature": thought["signature"]}
    signature = {_SIGNATURE: base64.b64encode(encode_json(sealed)).decode()}
    calls = [block for block in content if block["type"] == "tool_use"]
    texts = [block for block in content if block["type"] == "text"]
    signed = calls[0] if calls else texts[-1] if texts and thought["thinking"] else None
    for block in content:
        mark = signature if block is signed else {}
        match block["type"]:
            case "thinking" if shows:
                yield {"text": block["thinking"], "thought": True}
            case "text":
                yield {"text": block["text"], **mark}
            case "tool_use":
                yield {"functionCall": {"name": block["name"], "args": block["input"], "id": block["id"]}, **mark}


def _cut(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts in which a part is streamed. The signature of a text comes after its words."""
    if "text" not in part:
        yield part
        return
    mark = {"thought": True} if part.get("thought") else {}
    yield from ({"text": piece, **mark} for piece in cut_pieces(part["text"]))
    if _SIGNATURE in part:
        yield {"text": "", _SIGNATURE: part[_SIGNATURE]}


def _head(message: dict[str, Any]) -> dict[str, Any]:
    return {"modelVersion": message["model"], "responseId": message["id"].removeprefix("msg_")}


def _reason(message: dict[str, Any]) -> str:
    return _REASONS.get(message["stop_reason"], "STOP")


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    read = usage["cache_read_input_tokens"]
    prompt = usage["input_tokens"] + read + usage["cache_creation_input_tokens"]
    output = usage["output_tokens"]
    cached = {"cachedContentTokenCount": read} if read else {}
    thoughts = output // 3
    return {
        "promptTokenCount": prompt,
        **cached,
        "candidatesTokenCount": output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + output,
    }
