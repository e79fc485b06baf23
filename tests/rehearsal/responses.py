"""A strict server of OpenAI's Responses with scripted replies, for harnesses that speak that format.

It refuses unknown fields, answers by the number of calls in the conversation, and counts the tokens that it has charged.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_BYTES_PER_TOKEN = 4
_KNOWN = {
    *("model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "store", "stream"),
    *("include", "prompt_cache_key", "text", "service_tier", "max_output_tokens", "prompt_cache_retention"),
}


@dataclass(frozen=True)
class ScriptedResponse:
    """One reply: a text, and calls of functions, each a name and its arguments."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()


@dataclass
class ResponsesServer:
    """One server, with its requests."""

    replies: Sequence[ScriptedResponse]
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def start(self, port: int = 0) -> None:
        """Begin to serve, on a free port by default."""
        server = self
        lock = threading.Lock()

        class Exchange(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.keys.add(self.headers.get("authorization", ""))
                unknown = set(body) - _KNOWN
                if self.path != "/v1/responses" or unknown:
                    return self._send(400, {"error": {"message": f"unknown {self.path} {unknown}", "type": "invalid"}})
                with lock:
                    server.requests.append(body)
                    events = server._answer(body)
                data = b"".join(
                    b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events
                )
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                self._send(200, {"tokens": server.input_tokens + server.output_tokens, "keys": sorted(server.keys)})

            def _send(self, status: int, told: dict[str, Any]) -> None:
                data = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Exchange)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address before `/responses`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        said = [
            item for item in body["input"] if item.get("role") == "assistant" or item.get("type") == "function_call"
        ]
        turn = len({json.dumps(item) for item in said if item.get("type") == "function_call"})
        reply = self.replies[min(turn, len(self.replies) - 1)]
        number = len(self.requests)
        items: list[dict[str, Any]] = []
        if reply.text:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        for index, (name, given) in enumerate(reply.calls):
            call_id = f"call_{number}_{index}"
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_{number}_{index}",
                    "call_id": call_id,
                    "name": name,
                    "arguments": json.dumps(given),
                    "status": "completed",
                }
            )
        tokens = len(json.dumps(body)) // _BYTES_PER_TOKEN
        cached = tokens // 2 if turn else 0
        output = max(1, len(json.dumps(items)) // _BYTES_PER_TOKEN)
        self.input_tokens += tokens
        self.cached_tokens += cached
        self.output_tokens += output
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + output,
        }
        about = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": items}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**about, "output": [], "status": "in_progress"}}
        ]
        for index, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            if item["type"] == "message":
                delta = {"output_index": index, "content_index": 0, "item_id": item["id"], "delta": reply.text}
                events.append({"type": "response.output_text.delta", **delta})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": {**about, "status": "completed", "usage": usage}})
        return events


def main(port: str, script: str) -> None:
    """Serve `[[text, [[function, arguments], …]], …]` on a port until this process is killed."""
    replies = [ScriptedResponse(text, [(name, given) for name, given in calls]) for text, calls in json.loads(script)]
    ResponsesServer(replies).start(int(port))
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
