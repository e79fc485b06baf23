"""Items: what a reader sees of a journal, one for each entry (`swarm.agent.transcript` makes them). Pure.

Everybody who shows a journal renders items: the command line, the page, MCP, `ReadAgent`, the stream of events. Nothing here is cut or
styled: `facts` are for programs, the rest is for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

ItemKind = Literal[
    "start", "prompt", "reply", "failure", "begun", "result", "spawn", "mail", "exchange", "wait", "answer", "ruling", "verdict",
    "hooks", "cut", "note", "end",
]  # fmt: skip
Level = Literal["", "good", "bad", "doubt", "quiet"]


class Passage(BaseModel):
    """A text that belongs to an item."""

    model_config = ConfigDict(frozen=True)

    text: str
    title: str = ""
    form: Literal["prose", "plain", "thought"] = "prose"
    """`prose`: somebody's words, in Markdown. `plain`: every character counts. `thought`: the model's thinking."""
    detail: bool = False
    """Only some readers want it."""
    repeated: bool = False
    """The reply before it has said the same."""
    agent: str = ""
    """Who speaks, if it is another agent."""


class MadeCall(BaseModel):
    """A call that a reply makes."""

    model_config = ConfigDict(frozen=True)

    call: str
    """Its `tool_use` id."""
    name: str
    about: str
    """What it is about, in a line."""
    input: Any = None
    message: str = ""
    """What it sends to somebody."""

    @property
    def words(self) -> str:
        """The call in a line."""
        return self.about if self.message else f"{self.name} {self.about}".strip()


class Fate(BaseModel):
    """What has become of a call."""

    model_config = ConfigDict(frozen=True)

    call: str
    outcome: str
    """In a word or two, for instance `running`."""
    level: Level = ""
    agent: str = ""
    """The agent that it has started."""


class Item(BaseModel):
    """What a reader sees of one entry."""

    model_config = ConfigDict(frozen=True)

    kind: ItemKind
    title: str
    at: float = 0.0
    aside: str = ""
    """Beside the title: how it came about."""
    level: Level = ""
    parts: list[Passage | MadeCall] = []
    fates: list[Fate] = []
    """Of the calls that it is about: who shows those need not show it by itself."""
    about: str = ""
    """The call that it is about, in a line, if that is known."""
    agent: str = ""
    """The agent that it speaks of."""
    seconds: float = 0.0
    tokens: dict[str, int] = {}
    """Of a reply: `read`, `cached`, `written`."""
    cost_usd: float | None = None
    facts: dict[str, Any] = {}
    """For programs."""

    @property
    def heading(self) -> str:
        """The title, and what it is about."""
        return f"{self.title}: {self.about}" if self.about else self.title


# -- items as text, for models ---------------------------------------------------------------------------------

_LEFT_OUT = ("start", "begun", "ruling", "hooks")
_HEADED = ("reply", "mail")


def as_text(item: Item, shorten: Callable[[str], str], *, inputs: bool = False) -> str:
    """An item for a model to read, its longer parts shortened, calls with their `inputs`; empty for what is the runtime's own."""
    if item.kind in _LEFT_OUT:
        return ""
    lines = [] if item.kind in _HEADED else [f"{item.heading}{f' ({item.aside})' if item.aside else ''}"]
    for part in item.parts:
        if isinstance(part, MadeCall):
            lines.append(f"called: {shorten(_write_call(part, inputs=inputs))}")
        elif part.form != "thought" and not part.detail and part.text.strip():
            said = f"{'said' if item.kind == 'reply' else part.title}: " if item.kind in _HEADED else ""
            lines.append(said + (part.text.strip() if item.kind in ("reply", "end") else shorten(part.text)))
    return "\n   ".join(lines)


def _write_call(call: MadeCall, *, inputs: bool) -> str:
    if call.message:
        return f"{call.words}: {call.message}"
    return f"{call.name} {json.dumps(call.input, ensure_ascii=False)}" if inputs else call.words


def page_of(told: Iterable[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    """As many texts as fit into so many characters, and at least one."""
    page: list[tuple[int, str]] = []
    size = 0
    for number, text in told:
        if page and size + len(text) > most:
            break
        page.append((number, text))
        size += len(text)
    return page
