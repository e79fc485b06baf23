"""One agent as updates of its session: its words as the model writes them, then its calls and results from the journal. Pure.

Guarantee: the pieces of a message, joined, are the message of the journal. The part that a watcher missed comes with the journal's entry.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Any

from swarm.agent.entries import Entry
from swarm.agent.items import Item, MadeCall
from swarm.agent.transcript import Narrator
from swarm.api.acp.updates import Update, as_content, begin_call, move_call, read_plan, say
from swarm.runtime.token_stream import count_units

_KINDS = {"text": "agent", "thinking": "thought"}
_BETWEEN = "\n\n"
"""Between the blocks of a reply, as the journal's reader joins them."""


class _Spoken:
    """The part of a reply that the editor has, of one kind: text or thinking."""

    def __init__(self) -> None:
        self.text = ""
        self.block = -1
        self.units = 0
        """Length of the current block, as the pieces count it."""


class AgentVoice:
    """One agent's part of the thread. `prefix` marks its messages if it shares a session with others."""

    def __init__(self, agent_id: str, folder: str, *, prefix: str = "", marks_calls: bool = False) -> None:
        self.agent_id, self.read = agent_id, 0
        """`read` is the number of the last entry that the editor has."""
        self._folder, self._prefix, self._marks_calls = folder, prefix, marks_calls
        self._workspace = folder
        """The agent's own folder: a copy of the person's, perhaps on another host."""
        self._task = ""
        self._narrator = Narrator()
        self._entry = self._attempt = 0
        self._spoken: dict[str, _Spoken] = {}
        self._silent: set[str] = set()
        """Calls that are shown otherwise."""
        self.calls: dict[str, MadeCall] = {}
        """Calls without a result."""
        self.has_diff: set[str] = set()

    def call_id(self, call: str) -> str:
        """The id of a call in its session; agents that share one may have equal ids."""
        return f"{self.agent_id}/{call}" if self._marks_calls else call

    def place(self, path: str) -> str:
        """Return where a path of the agent's folder is in the person's."""
        found = os.path.join(self._workspace, path)
        below = found.removeprefix(f"{self._workspace}/")
        return found if below == found else os.path.join(self._folder, below)

    def read_task(self, prompt: str) -> str:
        """Return the task in a prompt, without the runtime's facts before it."""
        return self._task if self._task and prompt.endswith(self._task) else prompt

    # -- words -----------------------------------------------------------------------------------------------------

    def speak(self, piece: Mapping[str, str]) -> list[Update]:
        """Tell a piece of a reply that is being written."""
        kind, entry = piece["type"], int(piece["entry"])
        if entry <= self.read or entry < self._entry or kind not in _KINDS or self._prefix:
            return []  # Pieces of several agents in one session would be mixed word by word.
        if entry != self._entry:
            self._begin(entry)
        number, begin, text = int(piece["block"]), int(piece["from"]), piece["text"]
        spoken = self._spoken.setdefault(kind, _Spoken())
        if begin == 0 and number <= spoken.block:
            # The request failed, and is made again.
            self._attempt += 1
            self._spoken = {kind: (spoken := _Spoken())}
        if number > spoken.block and begin == 0:
            text_before, spoken.block, spoken.units = _BETWEEN if spoken.text else "", number, 0
        else:
            text_before = ""
        if number != spoken.block or begin != spoken.units or not text:
            return []  # A part was missed or comes twice; the entry brings the rest.
        spoken.units += count_units(text)
        spoken.text += text_before + text
        return [say(_KINDS[kind], text_before + text, self._message_id(kind))]

    def _begin(self, entry: int) -> None:
        self._entry, self._attempt, self._spoken = entry, 0, {}

    def _message_id(self, kind: str) -> str:
        return f"{self.agent_id}:{self._entry}:{self._attempt}:{kind}"

    def _finish(self, kind: str, text: str) -> list[Update]:
        """Tell the part of a whole message that the editor lacks."""
        spoken = self._spoken.get(kind, _Spoken())
        if not text.startswith(spoken.text):
            self._attempt += 1
            spoken = _Spoken()
        rest = text[len(spoken.text) :]
        return [say(_KINDS[kind], self._prefix + rest, self._message_id(kind))] if rest.strip() else []

    # -- the journal -----------------------------------------------------------------------------------------------

    def tell(self, number: int, entry: Entry) -> tuple[Item, list[Update]]:
        """Tell the next entry of the journal; also returns its item."""
        if number != self._entry:
            self._begin(number)
        self.read = number
        item = self._narrator.item(entry)
        match item.kind:
            case "start":
                self._workspace, self._task = item.facts["workspace"], item.facts["task"]
            case "reply":
                return item, self._tell_reply(item)
            case "begun" | "spawn":
                return item, [
                    move_call(self.call_id(fate.call), "in_progress") for fate in item.fates if fate.call in self.calls
                ]
            case "result":
                return item, self._tell_result(item)
        return item, []

    def _tell_reply(self, item: Item) -> list[Update]:
        told = self._finish("thinking", item.facts.get("thinking", ""))
        told += self._finish("text", item.facts.get("text", ""))
        for part in item.parts:
            if not isinstance(part, MadeCall):
                continue
            if (plan := read_plan(part)) is not None:
                self._silent.add(part.call)
                told += [] if self._prefix else [plan]
                continue
            self.calls[part.call] = part
            begun = begin_call(part, self.call_id(part.call), self._prefix, self.place)
            if "content" in begun:
                self.has_diff.add(part.call)
            told.append(begun)
        return told

    def _tell_result(self, item: Item) -> list[Update]:
        call, failed = item.facts["tool_use_id"], item.facts["is_error"]
        if call in self._silent or self.calls.pop(call, None) is None:
            return []
        # The result of an edit takes the place of the difference, so it is left out unless it is an error.
        shown = None if call in self.has_diff and not failed else as_content(item.facts["text"])
        return [move_call(self.call_id(call), "failed" if failed else "completed", shown)]


def list_messages(item: Item) -> list[tuple[str, Any]]:
    """Return the messages that an item takes in: each one's id and passage."""
    ids = item.facts.get("ids", [])
    return list(zip(ids, item.parts, strict=True)) if len(ids) == len(item.parts) else []
