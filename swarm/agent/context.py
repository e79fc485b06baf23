"""How much of an agent's life its requests still hold: where the conversation can be cut, and what became of cutting it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cut:
    """A place before a reply: what lies before it was a request, and is in the prompt cache if that was lately."""

    place: int
    """The reply's place among the messages."""
    entry: int
    """The last journal entry that lies before it."""
    tokens: int
    """How long that request was, as the model's server counted it; 0: it did not say."""


@dataclass(frozen=True)
class Said:
    """Words that bind the agent: of the job's person, or of its parent."""

    run: int
    """In which of the agent's runs."""
    text: str


@dataclass
class Context:
    """What the fold knows of the conversation's length. Fields are for reading; only the fold changes them."""

    cuts: list[Cut] = field(default_factory=list)
    compactions: int = 0
    tried_at: int = -1_000
    """The turn after which a summary was last asked for."""
    failures: int = 0
    """Attempts in a row that failed, or gained too little."""
    earlier: int = 0
    """How many cuts further back the next attempt is made: so often was the request for a summary too long itself."""
    text_only: bool = False
    """The server refused to make a block: a message does it."""
    overflows: int = 0
    """How often in a row the conversation did not fit the model."""
    bare: bool = False
    """No summary could be made: the agent works from records alone, for its last words."""
    fresh: bool = False
    """Nothing was replied since the last cut."""
    asked: str = ""
    """The last request by a person for a summary that was carried out, or tried."""
    said: list[Said] = field(default_factory=list)
    standing: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By tool, the input of the last call that still holds."""
    denials: dict[str, int] = field(default_factory=dict)
    """How often in this run calls were denied, by what they have in common."""
    runs: int = 1
