"""Asks pydantic-ai for the requests that it would send for conversations: `PYTHON vendor_bodies.py < QUESTION > BODIES`.

It runs in an environment of its own, `pip install 'pydantic-ai-slim[openai,google]'`, and imports nothing of swarm. A server here
keeps each body and refuses it. Blocks become pydantic-ai's parts with the ids, signatures and details that its own readers would give them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

SETTINGS: dict[str, dict[str, Any]] = {
    "chat": {},
    "responses": {"openai_store": False, "openai_send_reasoning_ids": True},
    "gemini": {},
}


def main() -> None:
    """Answer the question on the standard input."""
    question = json.load(sys.stdin)
    bodies: list[Any] = []

    class Keeper(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(400)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keeper) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        asyncio.run(_ask_all(question, url, bodies))
        server.shutdown()
    json.dump(bodies, sys.stdout)


async def _ask_all(question: dict[str, Any], url: str, bodies: list[Any]) -> None:
    wire = question["wire"]
    model = _model(wire, question["model"], url)
    tools = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["input_schema"],
            strict=False,
        )
        for tool in question["tools"]
    ]
    parameters = ModelRequestParameters(function_tools=tools, allow_text_output=True)
    for number, messages in enumerate(question["conversations"], 1):
        history = _history(wire, question["system"], messages, model)
        settings: Any = {"max_tokens": question["max_tokens"], "max_retries": 0, **SETTINGS[wire]}
        with contextlib.suppress(Exception):
            await model_request(model, history, model_settings=settings, model_request_parameters=parameters)
        if len(bodies) != number:
            raise SystemExit(f"conversation {number} of {wire} made {len(bodies)} requests")


def _model(wire: str, name: str, url: str) -> Model:
    match wire:
        case "chat":
            return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="x"))
        case "responses":
            return OpenAIResponsesModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="x"))
    return GoogleModel(name, provider=GoogleProvider(base_url=url, api_key="x"))


def _history(wire: str, system: str, messages: list[dict[str, Any]], model: Model) -> list[ModelMessage]:
    made: list[ModelMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant":
            names |= {block["id"]: block["name"] for block in content if block["type"] == "tool_use"}
            parts = [part for block in content for part in _parts(wire, block, model.system)]
            made.append(ModelResponse(parts=parts, provider_name=model.system, model_name=model.model_name))
            continue
        given: list[Any] = []
        for block in content:
            if block["type"] == "tool_result":
                given.append(_returned(block, names))
            else:
                given.append(UserPromptPart(content=[_shown(block)]))
        made.append(ModelRequest(parts=given, instructions=system))
    return made


def _parts(wire: str, block: dict[str, Any], provider: str) -> list[Any]:
    item = (block.get("vendor") or {}).get("item")
    own: dict[str, Any] = {"provider_name": provider} if item is not None else {}
    match block["type"], wire:
        case "thinking", _ if item is None or wire == "chat":
            return []  # of another vendor's model, or as OpenAI's own server never tells it
        case "thinking", "responses":
            return [
                ThinkingPart(content=block["thinking"], id=item["id"], signature=item.get("encrypted_content"), **own)
            ]
        case "text", "responses" if item is not None:
            details = {"phase": item["phase"]} if "phase" in item else None
            return [TextPart(content=block["text"], id=item["id"], provider_details=details, **own)]
        case "tool_use", "responses" if item is not None:
            arguments = item.get("arguments", json.dumps(block["input"], separators=(",", ":")))
            return [
                ToolCallPart(tool_name=block["name"], args=arguments, tool_call_id=block["id"], id=item["id"], **own)
            ]
        case "tool_use", "chat" if item is not None:
            arguments = item["function"]["arguments"]
            return [ToolCallPart(tool_name=block["name"], args=arguments, tool_call_id=block["id"])]
        case "tool_use", "gemini" if item is not None and "thoughtSignature" in item:
            details = {"thought_signature": item["thoughtSignature"]}
            call = {"tool_name": block["name"], "args": block["input"], "tool_call_id": block["id"]}
            return [ToolCallPart(**call, provider_details=details, **own)]
        case "thinking", "gemini":
            return [ThinkingPart(content=block["thinking"], **own)]
        case "text", "gemini" if item is not None:
            return [_signed_text(block["text"], item["parts"], own)]
        case "tool_use", _:
            return [ToolCallPart(tool_name=block["name"], args=block["input"], tool_call_id=block["id"])]
        case "text", _:
            return [TextPart(content=block["text"])]
    raise ValueError(f"{wire} has no part for {block['type']}")


def _signed_text(text: str, parts: list[dict[str, Any]], own: dict[str, Any]) -> Any:
    (signature,) = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
    return TextPart(content=text, provider_details={"thought_signature": signature}, **own)


def _returned(block: dict[str, Any], names: dict[str, str]) -> ToolReturnPart:
    content = block["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    shown = [_shown(part) for part in parts]
    return ToolReturnPart(
        tool_name=names[block["tool_use_id"]],
        tool_call_id=block["tool_use_id"],
        content=shown[0] if len(shown) == 1 and isinstance(shown[0], str) else shown,
        outcome="failed" if block.get("is_error") else "success",
    )


def _shown(block: dict[str, Any]) -> Any:
    if block["type"] == "text":
        return block["text"]
    source = block["source"]
    return BinaryContent(data=base64.b64decode(source["data"]), media_type=source["media_type"])


if __name__ == "__main__":
    main()
