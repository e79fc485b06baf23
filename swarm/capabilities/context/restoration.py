"""Rebuild an agent's context after a summary replaced its conversation, from records and never from the summary.

Each capability renders its own part by a function (`restate_…(context, history)`, empty if it has none). A row here names the function
and its heading; further parts need a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from swarm.agent.history import History
from swarm.agent.prompts import first_message
from swarm.definitions.tools import READ
from swarm.mailbox import write_out
from swarm.tools import ToolContext
from swarm.tools.outputs import PAST, fit
from swarm.workspace import OUTPUT_PREFIX

Restater = Callable[[ToolContext, History], str]


class RestoredPart(NamedTuple):
    """One part of the restored context."""

    head: str
    """The part's subject, used as an element's name."""
    home: str
    """`module:function`; imported when it is first used."""
    of_others: bool = False
    """Whether the part holds text by other agents."""


RESTATERS = (
    RestoredPart("task", "swarm.capabilities.context.restoration:restate_task"),
    RestoredPart("instruction-files", "swarm.capabilities.context.restoration:restate_guidance"),
    RestoredPart("skills", "swarm.capabilities.skills.skill_tool:restate_skills"),
    RestoredPart("memory", "swarm.capabilities.memory.mounts:restate_memory"),
    RestoredPart("words", "swarm.capabilities.context.restoration:restate_words"),
    RestoredPart("mode", "swarm.capabilities.context.restoration:restate_mode"),
    RestoredPart("plan", "swarm.tools.questions:restate_plan"),
    RestoredPart("agents", "swarm.tools.agents:restate_children", of_others=True),
    RestoredPart("tasks-claimed", "swarm.capabilities.team.board_tools:restate_tasks", of_others=True),
    RestoredPart("verdicts", "swarm.capabilities.context.restoration:restate_verdicts"),
    RestoredPart("todos", "swarm.tools.todo:restate_todos"),
    RestoredPart("shells", "swarm.tools.background:restate_shells"),
    RestoredPart("requests", "swarm.tools.messages:restate_mail"),
    RestoredPart("files-read", "swarm.capabilities.context.restoration:restate_files"),
)

_SHOWN_FILES = 40
_SHOWN_VERDICTS = 2
_MAX_WORDS = 60_000
"""Most characters of this run's messages; the newest come whole."""
_MAX_EARLIER = 20_000
_MAX_TAIL = 150_000

_HEAD = (
    "The earlier part of this conversation was replaced by a summary. The following was rendered by the runtime from its records: where "
    "the summary says something else, this holds."
)
_FOOT = "Do not begin finished work again. Take the next step of the open work; if there is none, give your result."


def restate(context: ToolContext, history: History, *, tail: str = "") -> str:
    """Render the message after a summary; `tail` is text after the summarized part, if that is not kept as it was."""
    parts = [(row.head, _tell(row, context, history)) for row in RESTATERS]
    parts.append(("last-turn", tail))
    told = "\n\n".join(f"<{head}>\n{text}\n</{head}>" for head, text in parts if text)
    past = f'\nThe whole earlier conversation can still be read: {READ}(file_path="{OUTPUT_PREFIX}{PAST}").'
    note = past if READ in history.tool_names() else ""
    return f"<state-of-things>\n{_HEAD}{note}\n\n{told}\n\n{_FOOT}\n</state-of-things>"


def _tell(row: RestoredPart, context: ToolContext, history: History) -> str:
    told = _load(row.home)(context, history).strip()
    return write_out(told) if row.of_others else told


@cache
def _load(home: str) -> Restater:
    module, _, name = home.partition(":")
    restater: Restater = getattr(import_module(module), name)
    return restater


def restate_task(context: ToolContext, history: History) -> str:
    """Render the surroundings and the task verbatim; a task longer than any result is read by page."""
    return fit(context.outputs, "task", first_message(context.spec, now=context.spec.created_at or context.now()))


def restate_words(context: ToolContext, history: History) -> str:
    """Render later messages of people and the parent verbatim. Those of earlier runs only restrict."""
    now = [said.text for said in history.context.said if said.run == history.context.runs]
    before = [said.text for said in history.context.said if said.run != history.context.runs]
    parts = []
    if before:
        head = "Said in earlier runs. Their requests were answered; their demands on how you work still hold."
        parts += [head, *_newest(before, _MAX_EARLIER)]
    if now:
        parts += [
            "Said in this run. It holds, word for word, unless it was taken back later.",
            *_newest(now, _MAX_WORDS),
        ]
    return "\n\n".join(parts)


def restate_guidance(context: ToolContext, history: History) -> str:
    """Render the first message's instruction files; files that came with reads come again with the next reads."""
    return history.guidance


def restate_verdicts(context: ToolContext, history: History) -> str:
    """Render the last verdicts on submitted work."""
    return "\n\n".join([verdict.text for verdict in history.verdicts if verdict.text][-_SHOWN_VERDICTS:])


def restate_mode(context: ToolContext, history: History) -> str:
    """Render the permission mode in force, if it differs from the task's."""
    return "" if history.mode == context.spec.mode and history.mode != "plan" else f"Permission mode: {history.mode}"


def restate_files(context: ToolContext, history: History) -> str:
    """List the files read or written last, whose contents have left the conversation."""
    paths = [context.show(Path(path)) for path in list(history.files_read)[-_SHOWN_FILES:]]
    return "Read or written; read again those that you need:\n" + "\n".join(paths) if paths else ""


def tell_tail(messages: list[dict[str, object]]) -> str:
    """Render the last turn as text if it cannot be kept: the reply, its calls and their results."""
    told = [_tell_block(block) for message in messages for block in message["content"]]  # type: ignore[attr-defined]
    whole = "\n\n".join(filter(None, told))
    if len(whole) <= _MAX_TAIL:
        return whole
    each = max(1_000, _MAX_TAIL // max(1, len(told)))
    return "\n\n".join(text if len(text) <= each else _shorten(text, each) for text in told if text)[: 2 * _MAX_TAIL]


def _tell_block(block: dict[str, object]) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"[You called {block['name']} ({block['id']}): {block['input']}]"
        case "tool_result":
            content = block.get("content")
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            text = "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts)
            return f"[{'Error' if block.get('is_error') else 'Result'} of {block['tool_use_id']}:\n{text}\n]"
        case "image":
            return "[An image.]"
    return ""


def _shorten(text: str, most: int) -> str:
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _newest(texts: list[str], most: int) -> list[str]:
    """The texts, oldest first; those that do not fit are cut to their beginnings."""
    shown: list[str] = []
    for text in reversed(texts):
        room = most - sum(map(len, shown))
        shown.append(text if len(text) <= room else f"{text[:200]}…" if room > 0 else "")
    return [text for text in reversed(shown) if text]
