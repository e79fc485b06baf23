"""Claude Code, without a terminal: `claude -p`, its stream of events, and its hooks.

Its hooks ask before each call and report after it, so that the journal knows of a call before it begins. A question that takes
long ends the program: the hook answers `defer`, and the next run, without a prompt, asks again about the same call. The program
decides nothing by itself: a call that would need a prompt there is denied.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any, ClassVar

from swarm.capabilities.harnesses.adapter import HOME, URL, Adapter, ProgramStart
from swarm.definitions.tools import all_rows
from swarm.models import Block
from swarm.models.reply import ReplyBuilder
from swarm.runtime.request_prefix import permitted

_HOOKS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_HOOK_SECONDS = 3_600
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_DEFERRED = re.compile(r'"hook_deferred_tool","toolUseID":"([^"]+)"')


class ClaudeCode(Adapter):
    """One run of `claude -p`."""

    session_files: ClassVar[tuple[str, ...]] = (".claude/projects/*/*.jsonl", ".claude/projects/*/*/subagents/*.jsonl")

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._builder = self._new_builder()
        self._asked: dict[str, dict[str, Any]] = {}
        """Hooks that wait for a decision, by the call's id."""

    def continues(self, transcript: str) -> bool:
        deferred = _DEFERRED.findall(transcript)
        return bool(deferred) and f'"tool_use_id":"{deferred[-1]}"' not in transcript

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        run, spec = self.run, self.run.spec
        session = str(uuid.uuid5(uuid.NAMESPACE_OID, spec.agent_id))
        argv = [program, "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        # No settings of the person or the repository: the decisions are made here.
        argv += ["--setting-sources", "", "--strict-mcp-config", "--settings", str(given / "settings.json")]
        argv += ["--permission-mode", "manual", "--permission-prompts", "none", "--disable-slash-commands"]
        argv += ["--model", spec.model, "--tools", ",".join(self._tools())]
        argv += ["--effort", spec.definition.effort] if spec.definition.effort in _EFFORTS else []
        argv += ["--append-system-prompt", run.history.system] if run.history.system else []
        argv += ["--resume", session] if resumes else ["--session-id", session]
        hook = {"type": "http", "url": f"{URL}/hook", "timeout": _HOOK_SECONDS}
        settings = {"hooks": {name: [{"hooks": [hook]}] for name in _HOOKS}, "includeCoAuthoredBy": False}
        environment = {
            "ANTHROPIC_BASE_URL": URL,
            "ANTHROPIC_API_KEY": run.token,
            "ANTHROPIC_SMALL_FAST_MODEL": run.small_model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": run.small_model,
            "CLAUDE_CONFIG_DIR": f"{HOME}/.claude",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        return ProgramStart(argv, environment, {"settings.json": json.dumps(settings)})

    def _tools(self) -> list[str]:
        if not self.run.tools_allowed:
            return []
        # Of the tools that both have, those about files and commands; the others would need the network or a person.
        names = [
            row.name
            for row in all_rows()
            if row.matching in ("edited", "read", "command") and row.home and not row.origin
        ]
        tools = permitted(self.run.spec, names, sandboxed=True)
        harness = self.run.spec.definition.harness
        return [*tools, "Task"] if harness is not None and harness.subagents else tools

    def begin(self, prompt: str) -> None:
        self.run.input.put(prompt.encode())
        self.run.input.finish()

    # -- its stream of events -------------------------------------------------------------------------------------

    def hear(self, line: str) -> None:
        told = _read(line)
        if told.get("parent_tool_use_id"):
            return  # of an agent of its own
        match told.get("type"):
            case "stream_event":
                self._take_event(told.get("event") or {})
            case "user":
                self._take_results(told.get("message") or {})
            case "result":
                self.has_answered = not told.get("is_error")
                self.error = str(told.get("result") or told.get("subtype") or "") if told.get("is_error") else ""

    def _take_event(self, event: dict[str, Any]) -> None:
        if event.get("type") == "message_start":
            self._builder = self._new_builder()
        self._builder.add(event)
        if event.get("type") == "message_stop" and (reply := self._builder.finish(None)) is not None:
            self.run.note_reply(reply.content, reply.stop_reason)

    def _take_results(self, message: dict[str, Any]) -> None:
        """Take in the results of calls without hooks, such as those of unknown tools."""
        for block in message.get("content") or ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self.run.note_result(block["tool_use_id"], _plain(block.get("content")), bool(block.get("is_error")))

    def _new_builder(self) -> ReplyBuilder:
        return ReplyBuilder(on_words=self.run.hear_words)

    # -- its hooks ------------------------------------------------------------------------------------------------

    def hook(self, told: dict[str, Any]) -> bool:
        call_id, child = str(told.get("tool_use_id")), str(told.get("agent_id") or "")
        call: Block = {
            "type": "tool_use",
            "id": call_id,
            "name": str(told.get("tool_name")),
            "input": told.get("tool_input") or {},
        }
        if child and told.get("hook_event_name") == "PreToolUse":
            allowed, reason = self.run.decisions.judge_child(call)
            self._decide(told, "allow" if allowed else "deny", reason)
        elif child:
            self.run.answer_hook(told, {})
        elif not self.run.knows(call_id):
            return False
        elif told.get("hook_event_name") == "PreToolUse":
            self._asked[call_id] = told
            self.run.decisions.decide(call)
        else:
            response, error = told.get("tool_response"), told.get("error")
            started = str(response.get("agentId") or "") if isinstance(response, dict) else ""
            text = describe_response(response) if error is None else str(error)
            self.run.note_result(call_id, text, error is not None, child=started)
            self.run.answer_hook(told, {})
        return True

    def answer(self, call_id: str, allowed: bool, reason: str) -> None:
        self._decide(self._asked.pop(call_id), "allow" if allowed else "deny", reason)

    def put_off(self, call_id: str) -> None:
        self._decide(self._asked.pop(call_id), "defer", "a person is asked")

    def _decide(self, told: dict[str, Any], decision: str, reason: str) -> None:
        output = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
        self.run.answer_hook(told, {"hookSpecificOutput": output})


def describe_response(response: Any) -> str:
    """Describe a call's result in the words that a reader of the journal expects."""
    match response:
        case None:
            return ""
        case str():
            return response
        case list():
            return _plain(response)
        case {"stdout": str(out), **rest}:
            return (
                "\n".join(filter(None, [out.rstrip("\n"), str(rest.get("stderr") or "").rstrip("\n")])) or "(no output)"
            )
        case {"file": {"content": str(content)}}:
            return content
        case {"filePath": str(path), **rest}:
            return f"{'Created' if rest.get('type') == 'create' else 'Changed'} {path}."
        case {"content": [*blocks]}:
            return _plain(blocks)
        case {"content": str(content)}:
            return content
    return json.dumps(response, ensure_ascii=False)


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")


def _read(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
