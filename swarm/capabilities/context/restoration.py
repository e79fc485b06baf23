"""What an agent is told again after a summary has taken its conversation's place: rendered from records, never from the summary.

Each capability says its own part, by a function beside it (`restate_…(context, history)`, empty where it has nothing to say). A row here
names the function and the head it stands under; what is to be told again beside these gets a row.
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
    """One part of what is told again."""

    head: str
    """What it is about, as an element's name."""
    home: str
    """`module:function`; imported when it is first used."""
    of_others: bool = False
    """It holds what other agents wrote."""


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
"""Characters of what was said in this run; the newest come whole."""
_MAX_EARLIER = 20_000
_MAX_TAIL = 150_000

_HEAD = (
    "The earlier part of this conversation was replaced by a summary. What follows was rendered by the runtime from its records: where the "
    "summary says something else, this holds."
)
_FOOT = (
    "What was asked for before and is done, is done: do not begin it again. Take the next step of what is open; if nothing is, give "
    "your result."
)


def restate(context: ToolContext, history: History, *, tail: str = "") -> str:
    """The message after a summary; `tail` is what came after the part that was summarized, where it is not kept as it was."""
    parts = [(row.head, _tell(row, context, history)) for row in RESTATERS]
    parts.append(("last-turn", tail))
    told = "\n\n".join(f"<{head}>\n{text}\n</{head}>" for head, text in parts if text)
    past = f'\nAll that was said before can still be read: {READ}(file_path="{OUTPUT_PREFIX}{PAST}").'
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
    """The surroundings and the task, word for word; one that is longer than any result may be is read by page."""
    return fit(context.outputs, "task", first_message(context.spec, now=context.spec.created_at or context.now()))


def restate_words(context: ToolContext, history: History) -> str:
    """What people and the parent have said since, word for word; of earlier runs, whose work is over, it is only what still forbids."""
    now = [said.text for said in history.context.said if said.run == history.context.runs]
    before = [said.text for said in history.context.said if said.run != history.context.runs]
    parts = []
    if before:
        head = "Said in earlier runs. What they ask for was answered; what they demand of how you work still holds."
        parts += [head, *_newest(before, _MAX_EARLIER)]
    if now:
        parts += [
            "Said in this run. It holds, word for word, unless it was taken back later.",
            *_newest(now, _MAX_WORDS),
        ]
    return "\n\n".join(parts)


def restate_guidance(context: ToolContext, history: History) -> str:
    """The instruction files that it began with; those that came with files it read come again when it reads these again."""
    return history.guidance


def restate_verdicts(context: ToolContext, history: History) -> str:
    """What was found wrong with the work when it was handed in, the last times."""
    return "\n\n".join([verdict.text for verdict in history.verdicts if verdict.text][-_SHOWN_VERDICTS:])


def restate_mode(context: ToolContext, history: History) -> str:
    """The permission mode in force, where it is not the one that the task tells of."""
    return "" if history.mode == context.spec.mode and history.mode != "plan" else f"Permission mode: {history.mode}"


def restate_files(context: ToolContext, history: History) -> str:
    """Which files it has read or written last: their contents are not in the conversation any more."""
    paths = [context.show(Path(path)) for path in list(history.files_read)[-_SHOWN_FILES:]]
    return "Read or written; read again what you need of them:\n" + "\n".join(paths) if paths else ""


def tell_tail(messages: list[dict[str, object]]) -> str:
    """The last turn as text, for where it cannot be kept as it was: the reply, its calls and their results."""
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
    """The texts, oldest first; of those that do not fit any more only the beginnings."""
    shown: list[str] = []
    for text in reversed(texts):
        room = most - sum(map(len, shown))
        shown.append(text if len(text) <= room else f"{text[:200]}…" if room > 0 else "")
    return [text for text in reversed(shown) if text]
