"""The next run of a harness: its prompt, with everything that its program does not know yet. Pure.

A harness keeps a conversation of its own, which can be behind the journal after a crash, or be lost. The journal holds the truth:
the next prompt holds all that the program's own record lacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from swarm.agent.history import History
from swarm.models import Block

GO_ON = "You were interrupted between two steps. Go on with the task where you left off."
ALLOWED = "A person has allowed this call, and it has not been run yet. Make it again, unchanged."
ALONE = (
    "The call was not run: it needs a person's answer, and other calls of the same reply are under way. Make this call again, as the "
    "only one of a reply."
)
BEGUN_BEFORE = (
    "This call was begun before an interruption, and is not begun twice: its outcome is unknown. Look at the state of things before you "
    "do it again, as a new call."
)
NOT_RUN = "The call was not run."
PERHAPS_RUN = "The outcome of the call is not known: it was perhaps not run."
NOT_OF_CHILDREN = (
    "The call was not run: it needs a person's answer, which an agent of yours cannot ask for. Make the call yourself."
)
_KNOWN = (
    "This is known of your last calls, which your own record may lack. Do not repeat a call that has a result; do those again, if they are "
    "still needed, that were not run."
)
_EARLIER = "You continue work that was begun earlier; its record is lost, except for this."
_MOST_CHARACTERS = 20_000
_MOST_OF_CALL = 2_000

Holds = Callable[[str], bool]
"""Whether the program's own record holds a text."""


def find_put_off(history: History) -> list[Block]:
    """Return the calls of the last reply that a person has answered about."""
    return [call for call in history.last_calls if call["id"] in history.answers]


def plan_prompt(history: History, holds: Holds, *, fresh: bool, continues: bool, lacking: str = NOT_RUN) -> str:
    """Return the prompt of the next run; empty if the program only continues at a call that it had put off.

    `fresh`: it has no record of an earlier run. `continues`: its record ends with such a call.
    `lacking` stands for the result of a call that has none.
    """
    if fresh:
        earlier = f"{_EARLIER}\n\n{_tell_past(history)}" if history.last is not None else ""
        return "\n\n".join(filter(None, [_task(history), earlier]))
    said = [text for text in _said_since(history) if not holds(json.dumps(text, ensure_ascii=False)[1:-1])]
    calls = [] if continues else history.last_calls
    known = [line for call in calls if (line := _tell_result(history, call, holds, lacking))]
    told = ["\n\n".join([_KNOWN, *known])] if known else []
    return "\n\n".join([*told, *said]) or ("" if continues else GO_ON)


def _task(history: History) -> str:
    """Return the texts of the first message, and all later ones of people and the runtime."""
    return "\n\n".join(text for message in history.messages if message["role"] == "user" for text in _texts(message))


def _said_since(history: History) -> list[str]:
    last = history.messages[-1]
    return _texts(last) if last["role"] == "user" else []


def _texts(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block.get("type") == "text"]


def _tell_result(history: History, call: Block, holds: Holds, lacking: str) -> str:
    if holds(f'"tool_use_id":"{call["id"]}"'):
        return ""
    result = history.known_result(call["id"])
    return f"- {_describe(call)}\n  Result: {lacking if result is None else _cut(_plain(result))}"


def _tell_past(history: History) -> str:
    """Return the agent's own words and calls, the latest ones in full."""
    lines = []
    for message in history.messages:
        for block in message["content"]:
            match block.get("type"):
                case "text" if message["role"] == "assistant":
                    lines.append(f"You said: {block['text']}")
                case "tool_use":
                    lines.append(f"You called {_describe(block)}")
                case "tool_result":
                    lines.append(f"Its result: {_cut(_plain(block))}")
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CHARACTERS else f"[…]\n{text[-_MOST_CHARACTERS:]}"


def _describe(call: Block) -> str:
    return f"{call['name']} {_cut(json.dumps(call['input'], ensure_ascii=False))}"


def _plain(result: Block) -> str:
    content = result.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_OF_CALL else f"{text[:_MOST_OF_CALL]} […]"
