"""Sends generated words to an agent's watchers. They are in no journal and decide nothing.

Watchers keep a key alive. Nothing is sent without it, or while Redis is unreachable.
"""

from __future__ import annotations

import time

from swarm.models import Block
from swarm.runtime.segment import Segment
from swarm.store.values import Piece

_SEND_SECONDS = 0.2
_ASK_SECONDS = 1.0
"""How often to check for watchers while there are none."""


class TokenStream:
    """The words of a reply under construction. `entry` is its future number in the journal."""

    def __init__(self, segment: Segment, entry: int, *, watched: bool = False) -> None:
        self._segment, self._entry, self.watched = segment, entry, watched
        self._pieces: list[tuple[int, str, str, str]] = []
        self._lengths: dict[int, int] = {}
        self._due_at = time.monotonic() + (_SEND_SECONDS if watched else _ASK_SECONDS)

    def expect(self, watched: bool) -> None:
        """Note that somebody watches, and send the next words soon."""
        if watched:
            self.watched = True
            self._due_at = min(self._due_at, time.monotonic() + _SEND_SECONDS)

    def take(self, number: int, block: Block, text: str) -> None:
        """Take in a piece of text that the model has written in a block."""
        kind = str(block.get("type"))
        self._pieces.append(
            (number, kind if kind in ("text", "thinking") else "tool", str(block.get("name", "")), text)
        )
        if time.monotonic() >= self._due_at:
            self._send()

    def _send(self) -> None:
        pieces, lengths = self._join()
        with self._segment.stop.unbroken():
            self.watched = self._segment.store.events.show_tokens(self._segment.claim, self._entry, pieces)
        if self.watched:
            # Without watchers, pieces stay here and the next watcher gets them whole.
            self._pieces, self._lengths = [], lengths
        self._due_at = time.monotonic() + (_SEND_SECONDS if self.watched else _ASK_SECONDS)

    def _join(self) -> tuple[list[Piece], dict[int, int]]:
        """Join the unsent text into one piece per block, with the resulting block lengths."""
        joined: dict[tuple[int, str, str], list[str]] = {}
        for number, kind, name, text in self._pieces:
            joined.setdefault((number, kind, name), []).append(text)
        lengths, pieces = dict(self._lengths), []
        for (number, kind, name), texts in joined.items():
            text = "".join(texts)
            begin = lengths.get(number, 0)
            pieces.append(Piece(block=number, type=kind, name=name, begin=begin, text=text))
            lengths[number] = begin + count_units(text)
        return pieces, lengths


def count_units(text: str) -> int:
    """Count UTF-16 units, as browsers do."""
    return len(text) + sum(character > "\uffff" for character in text)
