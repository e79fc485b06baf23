"""A request as the script sees it: agent type, turn, and latest texts and results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from swarm.agent.cut import SUMMARIZE

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
    prompt: list[str] = []
    last_texts: list[str] = []
    last_results: list[str] = []
    results: list[str] = []
    turn = 0
    prompting = True
    for index, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            summary = message["content"][0] if isinstance(message["content"], list) else {}
            if summary.get("type") == "compaction":
                turn += counted_replies(str(summary.get("content")))
                continue
            turn += 1
            prompting = prompting and not prompt
            last_texts, last_results = [], []
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text":
                last_texts.append(block["text"])
                if prompting:
                    prompt.append(block["text"])
            elif block["type"] == "tool_result":
                result = text_of(block.get("content") or "")
                last_results.append(result)
                results.append(result)
        if index == 0:
            turn += counted_replies("\n".join(last_texts))
    first = "\n".join(prompt)
    definition = _DEFINITION.search(system)
    workspace = _WORKSPACE.search(first) or _WORKSPACE.search(system)
    return Conversation(
        model=body["model"],
        definition=definition[1] if definition else None,
        prompt=first,
        turn=turn,
        last_text="\n".join(last_texts),
        last_results=tuple(last_results),
        results=tuple(results),
        workspace=workspace[1] if workspace else "",
        tools_allowed=(body.get("tool_choice") or {}).get("type") != "none",
        messages=len(body["messages"]),
        summarizing=body.get("compaction") is not None or SUMMARIZE in "\n".join(last_texts),
    )


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
