"""The context window of an agent's model: the table's, or a smaller one that the provider told, which the whole fleet remembers."""

from __future__ import annotations

from swarm.core.log import EventLog
from swarm.models.catalogue import context_tokens
from swarm.runtime.segment import Segment
from swarm.store.spending import ModelStore

log = EventLog("swarm.window")
_SMALLEST_TOKENS = 8_000
"""Conversations below this fit every model, so a short life asks Redis for nothing."""


class Window:
    """One segment's knowledge of its model's window."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._known = segment, False
        spec, settings = segment.spec, segment.settings
        self._most = context_tokens(spec.model, prices_file=settings.prices_file)
        server = spec.base_url or settings.base_url
        self._name = f"{spec.model} at {server}" if server else spec.model

    def tokens(self, conversation: int) -> int:
        """The most tokens of a request and its reply, for a conversation of so many tokens."""
        if not self._known and conversation > _SMALLEST_TOKENS:
            self._known = True
            self._most = min(self._most, ModelStore(self._segment.store.keyspace).window(self._name) or self._most)
        return self._most

    def learn(self, tokens: int) -> None:
        """Remember a window that the provider told, if it is smaller than the known one."""
        if _SMALLEST_TOKENS < tokens < self._most:
            log.warning("model.window", model=self._name, tokens=tokens, known=self._most)
            self._most = tokens
            ModelStore(self._segment.store.keyspace).note_window(self._name, tokens)
