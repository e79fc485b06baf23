"""Updates of a session, as the protocol has them. Pure.

https://agentclientprotocol.com/protocol/v1/schema
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from swarm.agent.items import MadeCall
from swarm.api.acp.commands import EditorCommand
from swarm.api.mcp.views import cut
from swarm.definitions.tools import Kind, ToolRow, row_of

Update = dict[str, Any]
SHOWN_CHARACTERS = 8_000
"""Characters of a result that an editor gets."""


def text_of(text: str) -> dict[str, Any]:
    """Return a text as content."""
    return {"type": "text", "text": text}


def say(kind: str, text: str, message_id: str) -> Update:
    """A piece of a message: `user`, `agent` or `thought`."""
    name = {"user": "user_message_chunk", "agent": "agent_message_chunk", "thought": "agent_thought_chunk"}[kind]
    return {"sessionUpdate": name, "messageId": message_id, "content": text_of(text)}


def as_content(text: str) -> list[dict[str, Any]]:
    """Return a text as content of a call."""
    return [{"type": "content", "content": text_of(cut(text, SHOWN_CHARACTERS))}] if text.strip() else []


def begin_call(call: MadeCall, call_id: str, prefix: str, place: Callable[[str], str]) -> Update:
    """A call of a reply, which has not begun yet; `place` finds a path of the agent in the person's folder."""
    row, given = row_of(call.name), call.input if isinstance(call.input, dict) else {}
    told: Update = {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        # The activity line of a start of an agent has its task, its subject only its type.
        "title": prefix + (row.describe(given) if row.activity else call.words),
        "name": call.name,
        "kind": kind_of(row),
        "status": "pending",
        "rawInput": call.input,
    }
    path = given.get(row.subject)
    if row.matching in ("edited", "read") and isinstance(path, str) and path:
        told["locations"] = [{"path": place(path)}]
        if diff := find_diffs(given, place(path)):
            told["content"] = diff
    return told


def kind_of(row: ToolRow) -> str:
    """Return the protocol's kind of a tool."""
    if row.sets_mode or row.needs == "plan":
        return "switch_mode"
    match row.matching:
        case "edited":
            return "edit"
        case "command":
            return "execute"
        case "read":
            # A tool that reads a file has its path as subject, one that searches a folder.
            return "read" if row.subject == "file_path" else "search"
    if row.network:
        return "fetch"
    return "think" if row.kind is Kind.SPAWN or row.heartbeat else "other"


def find_diffs(given: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Return the changes that the input of a call makes to a file, by the input's shape."""
    edits = given.get("edits") if isinstance(given.get("edits"), list) else [given]
    found = []
    for edit in edits or ():
        if isinstance(edit, dict) and isinstance(edit.get("new_string"), str):
            found.append(
                {"type": "diff", "path": path, "oldText": edit.get("old_string"), "newText": edit["new_string"]}
            )
    if isinstance(given.get("content"), str):
        found.append({"type": "diff", "path": path, "oldText": None, "newText": given["content"]})
    return found


def move_call(call_id: str, status: str, content: Sequence[dict[str, Any]] | None = None) -> Update:
    """A call's new state, and its result if there is one."""
    told: Update = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status}
    return told if content is None else {**told, "content": list(content)}


def read_plan(call: MadeCall) -> Update | None:
    """Return a call that writes an agent's list of tasks as a plan; None for any other call."""
    todos = call.input.get("todos") if isinstance(call.input, dict) else None
    if row_of(call.name).heartbeat != "last" or not isinstance(todos, list):
        return None
    entries = [
        {"content": str(one.get("content")), "priority": "medium", "status": str(one.get("status"))}
        for one in todos
        if isinstance(one, dict)
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def tell_usage(used: int, size: int, cost_usd: float | None) -> Update:
    """The size of the conversation, and the cost of the whole job if it is known."""
    cost = {} if cost_usd is None else {"cost": {"amount": round(cost_usd, 6), "currency": "USD"}}
    return {"sessionUpdate": "usage_update", "used": used, "size": size, **cost}


def show_commands(commands: Iterable[EditorCommand]) -> Update:
    """The commands that the person may type."""
    return {"sessionUpdate": "available_commands_update", "availableCommands": [one.show() for one in commands]}
