"""Outputs of hooks: every exit code and JSON field, for each event whose effect on a conversation can be seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

TOKENS = ("REASON", "CONTEXT", "STOP", "MESSAGE", "PLAIN", "GRUMBLE", "CHANGED")
"""Words that outputs hold, so that it can be seen which of them the model reads."""
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
)
RUNS, FAILS = "echo R''AN", "echo R''AN; exit 3"
"""Commands whose own text does not hold the word that they print."""


class Output(NamedTuple):
    """What a command gave."""

    code: int = 0
    out: str = ""
    err: str = ""


class Effect(NamedTuple):
    """What became of the conversation."""

    result: str
    """Of the call: `ran`, `failed`, `changed`, `refused`, or empty if no call was answered."""
    reads: tuple[str, ...]
    """The words that the model read."""
    turns: int
    """The number of replies; two without a hook."""


def _says(**document: Any) -> Output:
    return Output(out=json.dumps(document))


_ANY = {
    "nothing": Output(),
    "plain text": Output(out="PLAIN"),
    "exit 2 with stderr": Output(2, err="GRUMBLE"),
    "exit 2 with stdout": Output(2, out="PLAIN"),
    "exit 2 with JSON": Output(2, json.dumps({"decision": "approve", "reason": "REASON"}), "GRUMBLE"),
    "exit 1": Output(1, err="GRUMBLE"),
    "exit 1 with JSON": Output(1, json.dumps({"decision": "block", "reason": "REASON"})),
    "decision block": _says(decision="block", reason="REASON"),
    "decision approve": _says(decision="approve", reason="REASON"),
    "continue false": _says(**{"continue": False, "stopReason": "STOP"}),
    "systemMessage": _says(systemMessage="MESSAGE"),
    "half of a JSON": Output(out='{"decision": "block", "reason": "REA'),
    "unknown field": _says(surprise="PLAIN"),
}
_CALL = {"hookEventName": "PreToolUse", "permissionDecisionReason": "REASON"}
_CHANGE = {"updatedInput": {"command": "echo CHANGED", "description": "changed"}}
_OF_EVENT = {
    "PreToolUse": {
        "permission deny": _says(hookSpecificOutput={**_CALL, "permissionDecision": "deny"}),
        "permission allow": _says(hookSpecificOutput={**_CALL, "permissionDecision": "allow"}),
        "permission ask": _says(hookSpecificOutput={**_CALL, "permissionDecision": "ask"}),
        "updatedInput": _says(hookSpecificOutput={"hookEventName": "PreToolUse", **_CHANGE}),
        "allow and updatedInput": _says(hookSpecificOutput={**_CALL, **_CHANGE, "permissionDecision": "allow"}),
        "deny and additionalContext": _says(
            hookSpecificOutput={**_CALL, "permissionDecision": "deny", "additionalContext": "CONTEXT"}
        ),
    },
    "PostToolUse": {
        "updatedToolOutput": _says(hookSpecificOutput={"hookEventName": "PostToolUse", "updatedToolOutput": "CHANGED"}),
        "updatedToolOutput as a shape": _says(
            hookSpecificOutput={
                "hookEventName": "PostToolUse",
                "updatedToolOutput": {"stdout": "CHANGED", "stderr": "", "interrupted": False, "isImage": False},
            }
        ),
    },
}


def cases() -> Iterator[tuple[str, str, Output]]:
    """List event, name and output of each case."""
    for event in EVENTS:
        context = {"hookEventName": event, "additionalContext": "CONTEXT"}
        more = {
            "additionalContext": _says(hookSpecificOutput=context),
            "block and additionalContext": _says(decision="block", reason="REASON", hookSpecificOutput=context),
            "another event's name": _says(hookSpecificOutput={**context, "hookEventName": "Notification"}),
        }
        for name, output in {**_ANY, **more, **_OF_EVENT.get(event, {})}.items():
            yield event, name, output


def command_of(event: str) -> str:
    """The call that the model makes."""
    return FAILS if event == "PostToolUseFailure" else RUNS


def read_effect(result: str | None, failed: bool, read: str, turns: int) -> Effect:
    """Return the effect from the call's result and all that the model read after its first request."""
    what = ""
    if result is not None:
        what = "changed" if "CHANGED" in result else "refused" if "RAN" not in result else "failed" if failed else "ran"
    return Effect(what, tuple(word for word in TOKENS if word in read), turns)
