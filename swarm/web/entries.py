"""A journal's items for the page: long texts cut, edits as differences. Pure; a model's output is only ever text."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from swarm.agent.items import Item
from swarm.mailbox import Message
from swarm.store.journals import StoredEntry

SHOWN_CHARACTERS = 4_000
"""Longest text, unless the whole entry is requested."""
_DIFF_LINES = 400
_COMPARED_LINES = 4_000
_KIND = re.compile(r'"kind": ?"(\w+)"')


def show_item(number: int, item: Item, *, turn: int | None = None, full: bool = False) -> dict[str, Any]:
    """Convert an entry's item to JSON. `turn` is the number of the reply, or of the turn that the item belongs to. `cut` maps shortened
    texts to their lengths; with `full`, none is shortened."""
    shown = {**item.model_dump(mode="json", exclude_defaults=True, exclude={"facts"}), "n": number}
    for part in shown.get("parts", ()):
        if isinstance(part.get("input"), dict) and (lines := difference(part["input"])):
            part["diff"] = lines
    if turn is not None and item.kind == "reply":
        shown |= {"turn": turn, "title": f"turn {turn}"}
    elif turn is not None and item.kind == "mail":
        shown["aside"] = f"read in turn {turn}"
    if full:
        return shown
    cut: dict[str, int] = {}
    shown = dict(_cut(shown, "", cut))
    if cut:
        shown["cut"] = cut
    return shown


def is_reply(stored: StoredEntry) -> bool:
    """Whether the entry is a reply of the model, which counts as a turn."""
    return kind_of(stored) == "assistant"


def kind_of(stored: StoredEntry) -> str:
    """Return the entry's kind without parsing all of it."""
    # Within a text, these quotes would be escaped.
    found = _KIND.search(stored.document, 0, 200)
    return found[1] if found else str(json.loads(stored.document).get("kind"))


def message_ids(stored: StoredEntry) -> list[str]:
    """Return the ids of the messages in an entry."""
    return list(json.loads(stored.document).get("ids") or []) if kind_of(stored) == "mail" else []


def show_message(message: Message) -> dict[str, Any]:
    """Convert a message to JSON; `notice` is a runtime notice's content as data."""
    return {**message.model_dump(mode="json"), "notice": _read_notice(message)}


def _read_notice(message: Message) -> Any:
    if message.kind != "notification":
        return None
    try:
        return json.loads(message.body)
    except (ValueError, RecursionError):
        return None


def difference(given: dict[str, Any]) -> list[list[str]]:
    """Return a call's edit by line, if its input is one: kept `=`, removed `-`, added `+`, skipped `@`."""
    lines: list[list[str]] = []
    for old, new in _replacements(given):
        before, after = old.splitlines(), new.splitlines()
        if len(before) + len(after) > _COMPARED_LINES:
            continue
        if lines:
            lines.append(["@", "…"])
        lines += _compare(before, after)
    return (
        lines
        if len(lines) <= _DIFF_LINES
        else [*lines[:_DIFF_LINES], ["@", f"… {len(lines) - _DIFF_LINES} more lines"]]
    )


def _replacements(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Find replacements by the input's shape, because other editing tools take the same input."""
    edits = given.get("edits") if isinstance(given.get("edits"), list) else [given]
    for edit in edits or []:
        if (
            isinstance(edit, dict)
            and isinstance(edit.get("old_string"), str)
            and isinstance(edit.get("new_string"), str)
        ):
            yield edit["old_string"], edit["new_string"]
    if "file_path" in given and isinstance(given.get("content"), str):
        yield "", given["content"]


def _compare(before: list[str], after: list[str]) -> list[list[str]]:
    lines: list[list[str]] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]:
        if line.startswith("@@"):
            if lines:
                lines.append(["@", "…"])
        else:
            lines.append(["=" if line[0] == " " else line[0], line[1:]])
    return lines


def _cut(value: Any, path: str, cut: dict[str, int]) -> Any:
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        cut[path] = len(value)
        return value[:SHOWN_CHARACTERS]
    if isinstance(value, dict):
        return {name: _cut(each, f"{path}.{name}" if path else name, cut) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, f"{path}.{number}" if path else str(number), cut) for number, each in enumerate(value)]
    return value
