"""Items: a journal for readers, one item per entry (made in `swarm.agent.transcript`). Pure.

Every view of a journal renders items: the command line, the page, MCP, `ReadAgent`, the stream of events. Nothing here is cut or
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
    """`prose`: Markdown. `plain`: every character counts. `thought`: the model's thinking."""
    detail: bool = False
    """Hidden unless a reader asks for details."""
    repeated: bool = False
    """The preceding reply has the same text."""
    agent: str = ""
    """The speaker, if another agent."""


class MadeCall(BaseModel):
    """A call that a reply makes."""

    model_config = ConfigDict(frozen=True)

    call: str
    """The call's `tool_use` id."""
    name: str
    about: str
    """The subject in one line."""
    input: Any = None
    message: str = ""
    """Text of the message that the call sends."""

    @property
    def words(self) -> str:
        """The call in one line."""
        return self.about if self.message else f"{self.name} {self.about}".strip()


class Fate(BaseModel):
    """The outcome of a call."""

    model_config = ConfigDict(frozen=True)

    call: str
    outcome: str
    """A word or two, for instance `running`."""
    level: Level = ""
    agent: str = ""
    """The agent that the call started."""


class Item(BaseModel):
    """One entry as a reader sees it."""

    model_config = ConfigDict(frozen=True)

    kind: ItemKind
    title: str
    at: float = 0.0
    aside: str = ""
    """How it came about, shown beside the title."""
    level: Level = ""
    parts: list[Passage | MadeCall] = []
    fates: list[Fate] = []
    """Outcomes of the calls concerned. A view that shows the calls need not show this item."""
    about: str = ""
    """The call concerned in one line, if known."""
    agent: str = ""
    """The agent concerned."""
    seconds: float = 0.0
    tokens: dict[str, int] = {}
    """Token counts of a reply: `read`, `cached`, `written`."""
    cost_usd: float | None = None
    estimated_usd: float = 0.0
    """The part of the cost that is an estimate."""
    facts: dict[str, Any] = {}
    """Data for programs."""

    @property
    def heading(self) -> str:
        """The title and subject."""
        return f"{self.title}: {self.about}" if self.about else self.title


# -- items as text, for models ---------------------------------------------------------------------------------

_LEFT_OUT = ("start", "begun", "ruling", "hooks")
_HEADED = ("reply", "mail")


def as_text(item: Item, shorten: Callable[[str], str], *, inputs: bool = False) -> str:
    """Render an item for a model with long parts shortened; empty for the runtime's own items.

    `inputs`: include the calls' inputs.
    """
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
    """Take as many texts as fit into `most` characters, and at least one."""
    page: list[tuple[int, str]] = []
    size = 0
    for number, text in told:
        if page and size + len(text) > most:
            break
        page.append((number, text))
        size += len(text)
    return page
