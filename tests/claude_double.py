"""A strict stand-in for `claude -p`, where the real program is not installed: its options, stream, hooks, session and deferral.

It refuses every option and answer that it does not know, so that a change of our side shows. The real program's tests are in
tests/oracle/test_harnesses.py. It imports the standard library alone, because it runs in a box.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VERSION = "2.1.330"
_PLAIN = ("-p", "--verbose", "--include-partial-messages", "--strict-mcp-config", "--disable-slash-commands")
_VALUED = (
    *("--output-format", "--setting-sources", "--settings", "--permission-mode", "--permission-prompts", "--model"),
    *("--tools", "--append-system-prompt", "--resume", "--session-id", "--effort"),
)
_SCHEMA = {"type": "object", "properties": {}}


def install(folder: Path) -> Path:
    """Write the program into a folder, as a package has it; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"name": "claude-double", "version": VERSION}))
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}")
    program.chmod(0o755)
    return program


class Session:
    """One run."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.id = options.get("--resume") or options["--session-id"]
        slug = re.sub(r"[^A-Za-z0-9]", "-", os.getcwd())
        self.file = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", slug, f"{self.id}.jsonl")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if ("--resume" in options) != self.file.exists():
            sys.exit(f"session {self.id} {'exists' if self.file.exists() else 'does not exist'}")
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.lines = [json.loads(line) for line in lines]
        self.hooks = json.loads(Path(options["--settings"]).read_text())["hooks"]

    def note(self, kind: str, **told: Any) -> None:
        line = {"type": kind, **told}
        self.lines.append(line)
        with self.file.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation; a call without a result gets one that says so."""
        found: list[dict[str, Any]] = []
        for line in self.lines:
            if line["type"] not in ("user", "assistant"):
                continue
            message = line["message"]
            if found and found[-1]["role"] == message["role"]:
                found[-1]["content"] = [*found[-1]["content"], *message["content"]]
            else:
                found.append(dict(message))
        for at, message in enumerate(found):
            calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            then = found[at + 1]["content"] if at + 1 < len(found) else []
            has = {block.get("tool_use_id") for block in then}
            lost = [
                {"type": "tool_result", "tool_use_id": one, "content": "[interrupted]", "is_error": True}
                for one in calls
                if one not in has
            ]
            if lost and at + 1 < len(found):
                found[at + 1]["content"] = [*lost, *then]
        return found

    def deferred(self) -> dict[str, Any] | None:
        attachments = [line["attachment"] for line in self.lines if line["type"] == "attachment"]
        last = attachments[-1] if attachments else None
        answered = {
            block.get("tool_use_id")
            for line in self.lines
            if line["type"] == "user"
            for block in line["message"]["content"]
        }
        return None if last is None or last["toolUseID"] in answered else last

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self, prompt: str) -> None:
        if (marker := self.deferred()) is not None:
            call = {
                "type": "tool_use",
                "id": marker["toolUseID"],
                "name": marker["toolName"],
                "input": marker["toolInput"],
            }
            if self.carry_out([call]):
                return self.end("tool_deferred")
        elif not prompt:
            sys.exit("Error: Input must be provided either through stdin or as a prompt argument when using --print")
        if prompt:
            self.note("user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
        while True:
            message, stop = self.ask()
            self.note("assistant", message={"role": "assistant", "content": message})
            calls = [block for block in message if block["type"] == "tool_use"]
            if not calls:
                return self.end(stop, "".join(block.get("text", "") for block in message))
            if self.carry_out(calls):
                return self.end("tool_deferred")

    def ask(self) -> tuple[list[dict[str, Any]], str]:
        tools = [
            {"name": name, "description": name, "input_schema": _SCHEMA}
            for name in self.options["--tools"].split(",")
            if name
        ]
        body = {
            "model": self.options["--model"],
            "max_tokens": 128_000,
            "stream": True,
            "system": self.options.get("--append-system-prompt", ""),
            "messages": self.messages(),
            **({"tools": tools} if tools else {}),
        }
        response = self.post(
            "/v1/messages", body, {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
        )
        if response.status != 200:
            told = json.loads(response.read())
            text = f"API Error: {response.status} {told['error']['message']}"
            self.emit(type="result", subtype="success", is_error=True, api_error_status=response.status, result=text)
            sys.exit(1)
        blocks: dict[int, dict[str, Any]] = {}
        stop = ""
        while line := response.readline():
            if not line.startswith(b"data:"):
                continue
            event = json.loads(line[5:])
            self.emit(type="stream_event", event=event, parent_tool_use_id=None)
            match event["type"]:
                case "content_block_start":
                    blocks[event["index"]] = {**event["content_block"], "json": ""}
                case "content_block_delta":
                    block, delta = blocks[event["index"]], event["delta"]
                    block["text"] = block.get("text", "") + delta.get("text", "")
                    block["json"] += delta.get("partial_json", "")
                case "message_delta":
                    stop = event["delta"]["stop_reason"]
        content = []
        for block in blocks.values():
            given = block.pop("json")
            if block["type"] == "tool_use":
                block.pop("text")
                block["input"] = json.loads(given or "{}")
            content.append(block)
        return content, stop

    def carry_out(self, calls: list[dict[str, Any]]) -> bool:
        """Carry out calls; returns whether one was put off."""
        for number, call in enumerate(calls):
            decision, reason = self.decide(call)
            if decision == "defer":
                if number + 1 < len(calls):
                    sys.exit("calls after the one that is put off would be lost")
                about = {"toolUseID": call["id"], "toolName": call["name"], "toolInput": call["input"]}
                self.note("attachment", attachment={"type": "hook_deferred_tool", **about})
                return True
            text, failed = (
                (f"PreToolUse:{call['name']} hook error: {reason}", True) if decision == "deny" else self.act(call)
            )
            result = {"tool_use_id": call["id"], "type": "tool_result", "content": text, "is_error": failed}
            self.note("user", message={"role": "user", "content": [result]})
            self.emit(type="user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)
        return False

    def decide(self, call: dict[str, Any]) -> tuple[str, str]:
        told = self.hook("PreToolUse", call).get("hookSpecificOutput") or {}
        decision = told.get("permissionDecision")
        if decision not in ("allow", "deny", "defer") or told.get("hookEventName") != "PreToolUse":
            return "deny", "it would need a prompt"
        return decision, told.get("permissionDecisionReason", "")

    def act(self, call: dict[str, Any]) -> tuple[str, bool]:
        given = call["input"]
        if call["name"] not in self.options["--tools"].split(","):
            return f"<tool_use_error>Error: No such tool available: {call['name']}</tool_use_error>", True
        if call["name"] == "Write":
            Path(given["file_path"]).write_text(given["content"])
            response: Any = {"type": "create", "filePath": given["file_path"], "content": given["content"]}
            text, failed = f"File created successfully at: {given['file_path']}", False
        else:
            done = subprocess.run(["bash", "-c", given["command"]], capture_output=True, text=True)
            text, failed = done.stdout + done.stderr, done.returncode != 0
            response = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        if failed:
            self.hook("PostToolUseFailure", call, error=f"Exit code {done.returncode}\n{text}")
        else:
            self.hook("PostToolUse", call, tool_response=response)
        return text, failed

    def hook(self, event: str, call: dict[str, Any], **more: Any) -> dict[str, Any]:
        [entry] = self.hooks[event]
        [hook] = entry["hooks"]
        body = {"session_id": self.id, "hook_event_name": event, "tool_name": call["name"], "tool_input": call["input"]}
        response = self.post(urlsplit(hook["url"]).path, {**body, "tool_use_id": call["id"], **more}, {})
        answer = json.loads(response.read())
        assert response.status == 200 and set(answer) <= {"hookSpecificOutput"}, answer
        return answer

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(urlsplit(os.environ["ANTHROPIC_BASE_URL"]).netloc)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
        return connection.getresponse()

    def end(self, stop: str, text: str = "") -> None:
        self.emit(type="result", subtype="success", is_error=False, stop_reason=stop, result=text, session_id=self.id)

    def emit(self, **told: Any) -> None:
        print(json.dumps({**told, "uuid": str(uuid.uuid4())}), flush=True)


def read_options(words: list[str]) -> dict[str, str]:
    """Read the command line. Ends for an option that the program would not know."""
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if word in _VALUED:
            found[word] = words.pop(0)
        elif word in _PLAIN:
            found[word] = ""
        else:
            sys.exit(f"error: unknown option '{word}'")
    return found


if __name__ == "__main__":
    options = read_options(sys.argv[1:])
    if (
        options["--setting-sources"]
        or options["--permission-prompts"] != "none"
        or options["--permission-mode"] != "manual"
    ):
        sys.exit("it would decide by itself")
    Session(options).run(sys.stdin.read())
