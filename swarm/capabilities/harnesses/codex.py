"""Codex, without a terminal: `codex exec --json`, and its hooks.

Its hooks ask before each call, so rules hold for it and a call is journaled before it begins. It cannot put a call off: a
question that takes long ends it, and the answer comes with the next prompt. Its own sandbox is off, because the box holds, and
in a box it could not make another.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

from swarm.capabilities.harnesses import hook
from swarm.capabilities.harnesses.adapter import HOME, PORT, URL, Adapter, ProgramStart
from swarm.definitions.tools import EDIT
from swarm.models import Block

_HOOKS = ("PreToolUse", "PostToolUse")
_HOOK_SECONDS = 3_600
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EFFORTS = {"max": "xhigh"}
_KEY = "SWARM_MODEL_TOKEN"


class Codex(Adapter):
    """One run of `codex exec`."""

    session_files: ClassVar[tuple[str, ...]] = (".codex/sessions/*/*/*/*.jsonl",)
    patience_seconds: ClassVar[float] = float("inf")

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._said: list[str] = []
        self._asked: dict[str, dict[str, Any]] = {}

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        run = self.run
        _, model = run.vendor_and_model
        settings: dict[str, Any] = {
            "model": model,
            "model_provider": "swarm",
            "model_providers.swarm": {
                "name": "swarm",
                "base_url": f"{URL}/v1",
                "wire_api": "responses",
                "env_key": _KEY,
            },
            "check_for_update_on_startup": False,
            "features.multi_agent": run.harness.subagents,
        }
        if run.history.system:
            settings["developer_instructions"] = run.history.system
        if effort := run.spec.definition.effort:
            settings["model_reasoning_effort"] = _EFFORTS.get(effort, effort)
        argv = [program, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        argv += ["--sandbox", "danger-full-access"]
        argv += [word for name, value in settings.items() for word in ("-c", f"{name}={_as_toml(value)}")]
        argv += ["resume", run.session_id, "-"] if resumes and run.session_id else ["-"]
        command = f"{sys.executable} -I -S {given}/hook.py {PORT}"
        entry = [{"hooks": [{"type": "command", "command": command, "timeout": _HOOK_SECONDS}]}]
        environment = {"CODEX_HOME": f"{HOME}/.codex", _KEY: run.token}
        return ProgramStart(
            argv,
            environment,
            {"hook.py": Path(hook.__file__).read_text()},
            {".codex/hooks.json": json.dumps({"hooks": dict.fromkeys(_HOOKS, entry)})},
        )

    def begin(self, prompt: str) -> None:
        self.run.input.put(prompt.encode())
        self.run.input.finish()

    # -- its events -----------------------------------------------------------------------------------------------

    def hear(self, line: str) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return
        match told:
            case {"type": "thread.started", "thread_id": str(thread)}:
                self.run.session_id = thread
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                self._said.append(text)
                self.run.hear_words(0, {"type": "text"}, text)
            case {"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": output}}:
                self._take_result(str(output))
            case {"type": "item.completed", "item": {"type": "file_change", "changes": [*changes]}}:
                self._take_result("\n".join(f"{one.get('kind')} {one.get('path')}" for one in changes))
            case {"type": "turn.completed"}:
                if content := self._take_words():
                    self.run.note_reply(content, "end_turn")
                self.has_answered = True
            case {"type": "turn.failed", "error": {"message": message}} | {"type": "error", "message": message}:
                self.error = str(message)

    def _take_result(self, text: str) -> None:
        """Take in the result of the one call under way, if no hook has told it: a patch in a command has none."""
        for call_id in list(self.run.history.pending):
            self.run.note_result(call_id, text, False)

    def _take_words(self) -> list[Block]:
        text, self._said = "\n\n".join(self._said).strip(), []
        return [{"type": "text", "text": text}] if text else []

    # -- its hooks ------------------------------------------------------------------------------------------------

    def hook(self, told: dict[str, Any]) -> bool:
        call_id = str(told.get("tool_use_id"))
        if told.get("hook_event_name") != "PreToolUse":
            response = told.get("tool_response")
            text = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
            self.run.note_result(call_id, text, False)
            self.run.answer_hook(told, {})
            return True
        if self.run.history.pending:
            return False  # one call after the other
        call = _as_call(call_id, str(told.get("tool_name")), told.get("tool_input"))
        self._asked[call_id] = told
        self.run.note_reply([*self._take_words(), call], "tool_use")
        self.run.decisions.decide(call, paths=_paths_of(call))
        return True

    def answer(self, call_id: str, allowed: bool, reason: str) -> None:
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
        self.run.answer_hook(self._asked.pop(call_id), {} if allowed else {"hookSpecificOutput": output})

    def put_off(self, call_id: str) -> None:
        self.run.finish()


def _as_call(call_id: str, name: str, given: Any) -> Block:
    given = given if isinstance(given, dict) else {"input": given}
    if name == "apply_patch":
        patch = str(given.get("command") or given.get("input") or "")
        found = _PATCHED.findall(patch)
        return {
            "type": "tool_use",
            "id": call_id,
            "name": EDIT,
            "input": {"file_path": found[0] if found else ".", "patch": patch},
        }
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _paths_of(call: Block) -> tuple[str, ...]:
    """Return the files that a patch changes."""
    return tuple(_PATCHED.findall(str(call["input"].get("patch") or "")))


def _as_toml(value: Any) -> str:
    """Write a setting as TOML, whose strings, numbers and booleans are those of JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_as_toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)
