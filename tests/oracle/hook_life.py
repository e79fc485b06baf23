"""The life of an agent with one hook, without Redis: one call, one answer, and the hook's output at each of its events."""

from __future__ import annotations

import json
from typing import Any

from swarm.agent.decision import CallModel, End, RunTools, Say, Settle, next_action
from swarm.agent.entries import Assistant, Entry, Started, ToolFinished
from swarm.agent.history import History, fold
from swarm.agent.notes import NOBODY_TO_ASK
from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.answers import put_together, read_exit
from swarm.capabilities.hooks.events import find_events
from swarm.definitions.hooks import Hook
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from tests.oracle.hook_cases import Effect, Output, command_of, read_effect

DIFFERENCES = {
    *((event, "exit 2 with stdout") for event in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop")),
    *((event, "continue false") for event in ("SessionStart", "PreToolUse", "PostToolUseFailure")),
    ("PostToolUse", "updatedToolOutput"),
}
"""Cases whose effect differs; the table in docs/hooks.md has the reasons."""
_MOST_TURNS = 20


def live_with(event: str, output: Output) -> Effect:
    """Live to the end with a hook that gives this output, and is silent once `stop_hook_active` is set."""
    history = _begin()
    read: list[str] = []
    hook = Hook(event=event, kind="command", command="x", origin="user", source="s")
    while history.turns < _MOST_TURNS:
        action = next_action(history)
        if entries := _hear(history, action, hook, output):
            for entry in entries:
                history.apply(entry)
            continue
        match action:
            case CallModel():
                read.append(_unread(history))
                history.apply(_reply(history, command_of(event)))
            case RunTools(calls=[call, *_]):
                asked = history.hooks.leave.get(call["id"])
                history.apply(_run(call) if asked is None or asked.decision == "allow" else _refuse(call, asked.reason))
            case Settle(results=results):
                for result in results:
                    history.apply(result)
            case Say(prompt=prompt):
                history.apply(prompt)
            case End(finished=finished):
                history.apply(finished)
                break
            case _:
                raise AssertionError(action)
    answers = [block for message in history.messages for block in message["content"] if block["type"] == "tool_result"]
    result = json.dumps(answers[0]["content"]) if answers else None
    return read_effect(result, bool(answers and answers[0].get("is_error")), "\n".join(read), history.turns)


def _begin() -> History:
    definition = AgentDefinition(name="ada", description="d", prompt="p")
    place = {"agent_id": "a", "job_id": "j", "workspace": "/w", "description": "d", "prompt": "go", "model": "m"}
    return fold("a", [Started(spec=AgentSpec(definition=definition, **place), tools=[{"name": "Bash"}])])


def _hear(history: History, action: Any, hook: Hook, output: Output) -> list[Entry]:
    """Return the entries of the events before this action, of the first stage that has new ones."""
    for stage in find_events(history, action):
        entries: list[Entry] = []
        for event in stage:
            if event.name != hook.event or event.id in history.hooks.done:
                continue
            silent = event.given.get("stop_hook_active")
            said = read_exit(event, hook, *(Output() if silent else output), timed_out=False)
            entries.append(hooked := put_together(event, [said]))
            if event.call is not None and hooked.decision == "deny":
                entries.append(ToolFinished(tool_use_id=event.call["id"], text=hooked.reason, is_error=True))
        if entries:
            return entries
    return []


def _unread(history: History) -> str:
    """The text since the last reply, without that of the call's own result."""
    told = history.messages[-1]["content"] if history.messages[-1]["role"] == "user" else []
    return json.dumps(told)


def _reply(history: History, command: str) -> Assistant:
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": command}}
    content = [{"type": "text", "text": "done"}] if history.turns else [call]
    return Assistant(content=content, stop_reason="end_turn" if history.turns else "tool_use", usage=Usage(), model="m")


def _refuse(call: dict[str, Any], reason: str) -> ToolFinished:
    """No person is there to be asked."""
    return ToolFinished(tool_use_id=call["id"], text=f"{NOBODY_TO_ASK} ({reason})", is_error=True)


def _run(call: dict[str, Any]) -> ToolFinished:
    changed = "CHANGED" in call["input"]["command"]
    text = "CHANGED" if changed else "RAN"
    failed = "exit 3" in call["input"]["command"]
    return ToolFinished(tool_use_id=call["id"], text=text, is_error=failed, duration_seconds=0.1)
