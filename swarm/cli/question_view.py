"""Text of a question to a person: the asking agent, the subject, and the effect of an answer. Pure.

A model writes this text and a person decides by it. So nothing in it may be invisible, reverse the writing direction, or be cut off
silently.
"""

from __future__ import annotations

import difflib
import json
from typing import Any

from swarm.cli.output import one_line, plain
from swarm.store.questions import MAX_DETAIL_CHARACTERS, Question

_ASKS = {"permission": "asks for permission", "plan": "asks you to approve a plan", "event": "waits for an event"}
_SHOWN_LINES = 12
_CONTEXT_LINES = 2
_CHANGES = ("old_string", "new_string", "content")
"""Parameters whose text is a change to a file, shown as such."""
_SHOWN_LINE_CHARACTERS = 400


def show_heading(question: Question) -> str:
    """The asking agent and its request, on one line."""
    asker = f"{one_line(question.label, 80)} ({question.agent_id})"
    return f"{asker} {_ASKS.get(question.kind, 'asks')}: {one_line(question.title, 200)}"


def show_detail(question: Question, *, full: bool = False) -> list[str]:
    """All details for a decision, as lines; without `full`, at most a dozen, with the omitted number."""
    lines = _lines(question)
    shown = lines if full else lines[:_SHOWN_LINES]
    told = [line if full else _cut(line) for line in shown]
    if len(shown) < len(lines):
        told.append(f"… {len(lines) - len(shown)} more lines")
    return told


def is_cut(question: Question) -> bool:
    """Whether the short form omits lines or parts of lines."""
    return show_detail(question) != show_detail(question, full=True)


def read_always(question: Question) -> str:
    """Everything that a lasting approval allows, in words, never cut; empty if there is none."""
    return one_line(question.lasting_rule, MAX_DETAIL_CHARACTERS)


def _cut(line: str) -> str:
    missing = len(line) - _SHOWN_LINE_CHARACTERS
    return line if missing <= 0 else f"{line[:_SHOWN_LINE_CHARACTERS]}… {missing} more characters"


def _lines(question: Question) -> list[str]:
    if question.kind == "permission":
        lines = _call_lines(question.detail)
    elif options := question.options:
        text = question.detail.rsplit("\n", len(options))[0]
        lines = [*plain(text).split("\n"), *(f"{n}. {one_line(each, 1_000)}" for n, each in enumerate(options, 1))]
    else:
        lines = plain(question.detail.rstrip("\n")).split("\n")
    if question.kind == "question" and lines and lines[0] == one_line(question.title, 200):
        del lines[0]  # the heading has it
    if len(question.detail) >= MAX_DETAIL_CHARACTERS:
        lines.append("… the stored text is cut; the agent's transcript has all of it")
    return lines


def _call_lines(detail: str) -> list[str]:
    """Lines of the reason and the call's input, each parameter with its name."""
    reason, _, document = detail.rpartition("\n\n")  # JSON has no empty line
    lines = [f"because {line}" if n == 0 else line for n, line in enumerate(plain(reason).split("\n"))]
    try:
        given = json.loads(document)
    except ValueError:
        return [*lines, *plain(document).split("\n")]
    if not isinstance(given, dict):
        return [*lines, plain(document)]
    change = _change_lines(given)
    given = {name: value for name, value in given.items() if not change or name not in _CHANGES}
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = plain(text).split("\n")
        lines += [f"{one_line(name, 200)}: {first}", *(f"    {line}" for line in rest)]
    return lines + change


def _change_lines(given: dict[str, Any]) -> list[str]:
    """Lines that a call removes from and adds to a file; empty for any other call."""
    old, new = given.get("old_string"), given.get("new_string")
    if isinstance(old, str) and isinstance(new, str):
        before, after = (plain(text).split("\n") for text in (old, new))
        changed = difflib.unified_diff(before, after, n=_CONTEXT_LINES, lineterm="")
        return [line for line in changed if not line.startswith(("---", "+++", "@@"))] or ["(no change)"]
    content = given.get("content")
    if isinstance(given.get("file_path"), str) and isinstance(content, str):
        return [f"+{line}" for line in plain(content).removesuffix("\n").split("\n")]
    return []
