"""A request as the script sees it: agent type, turn, and latest texts and results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swarm.agent.cut import SUMMARIZE

_Message = tuple[str, list[dict[str, Any]]]
_COUNT = re.compile(r"\(rehearsed\) Summary of (\d+) replies\b")
_DEFINITION = re.compile(r'agent type is "([^"]+)"')
_WORKSPACE = re.compile(
    r"^\W*(?:workspace|working directory|cwd)[ \t*]*:[ \t]*`?([^`\n]*[^`\s])", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The data that rules, faults and scripts examine."""

    model: str
    definition: str | None
    """Agent type from the system prompt's `Your agent type is "<name>".`"""
    prompt: str
    """User text before the first reply."""
    turn: int
    """Number of replies so far."""
    last_text: str
    """User text since the last reply."""
    last_results: tuple[str, ...]
    """Tool results since the last reply, in order."""
    results: tuple[str, ...]
    """All tool results of the conversation, in order."""
    workspace: str
    """Folder in a line `Workspace: …` of the prompt or system prompt; empty if there is none."""
    tools_allowed: bool
    messages: int
    summarizing: bool = False
    """Whether the request asks for a summary instead of the next reply."""

    @property
    def last_result(self) -> str:
        """The latest tool results, joined to one text."""
        return "\n".join(self.last_results)


def read_conversation(body: dict[str, Any]) -> Conversation:
    """Read a validated request."""
    system = text_of(body.get("system") or "")
    messages = [(message["role"], _blocks_of(message["content"])) for message in body["messages"]]
    summaries = [blocks[0] for role, blocks in messages if role == "assistant" and _is_summary(blocks)]
    replies = [at for at, (role, blocks) in enumerate(messages) if role == "assistant" and not _is_summary(blocks)]
    turn = len(replies) + sum(counted_replies(str(block.get("content"))) for block in summaries)
    turn += counted_replies("\n".join(_texts(messages[:1])))
    last = messages[replies[-1] + 1 :] if replies else messages
    last_text, results, last_results = "\n".join(_texts(last)), _results(messages), _results(last)
    # The prompt ends with the first reply to a text.
    first = "\n".join(next(filter(None, (_texts(messages[:at]) for at in replies)), _texts(messages)))
    definition = _DEFINITION.search(system)
    workspace = _WORKSPACE.search(first) or _WORKSPACE.search(system)
    return Conversation(
        model=body["model"],
        definition=definition[1] if definition else None,
        prompt=first,
        turn=turn,
        last_text=last_text,
        last_results=last_results,
        results=results,
        workspace=workspace[1] if workspace else "",
        tools_allowed=(body.get("tool_choice") or {}).get("type") != "none",
        messages=len(body["messages"]),
        summarizing=body.get("compaction") is not None or SUMMARIZE in last_text,
    )


def _blocks_of(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_summary(blocks: list[dict[str, Any]]) -> bool:
    return bool(blocks) and blocks[0]["type"] == "compaction"


def _of_users(messages: list[_Message], kind: str) -> Iterator[dict[str, Any]]:
    return (block for role, blocks in messages if role != "assistant" for block in blocks if block["type"] == kind)


def _texts(messages: list[_Message]) -> list[str]:
    return [block["text"] for block in _of_users(messages, "text")]


def _results(messages: list[_Message]) -> tuple[str, ...]:
    return tuple(text_of(block.get("content") or "") for block in _of_users(messages, "tool_result"))


def text_of(content: str | list[dict[str, Any]]) -> str:
    """Text of a string or of content blocks; blocks of other types are ignored."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def default_summary(replies: int) -> str:
    """Make the summary for a scenario without its own; its count lets scripts continue at the right turn."""
    return f"(rehearsed) Summary of {replies} replies."


def counted_replies(text: str) -> int:
    """Number of replies that a summary replaces, if it states one."""
    found = _COUNT.findall(text)
    return int(found[-1]) if found else 0
