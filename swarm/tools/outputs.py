"""Long outputs, kept with the agent in Redis, so that any worker can page through them."""

from __future__ import annotations

from swarm.store.agents import Store
from swarm.store.values import Claim
from swarm.tools.past import PAST, tell_past
from swarm.workspace import OUTPUT_PREFIX


class Outputs:
    """The outputs of one agent that are too long for its conversation."""

    def __init__(self, store: Store, claim: Claim, inherited: str | None = None) -> None:
        self._store, self._claim = store, claim
        self._inherited = inherited
        """The agent whose conversation it began with, and so the handles in it."""

    def keep(self, key: str, text: str) -> str:
        """Keep `text` and return its handle, `output:KEY`. Raises `NotOwner` or `AgentCancelled`."""
        self._store.keep_output(self._claim, key, text)
        return f"{OUTPUT_PREFIX}{key}"

    def load(self, handle: str) -> str | None:
        """The text kept under `handle`, or None; `output:past` is all that the agent has lived."""
        key = handle.removeprefix(OUTPUT_PREFIX)
        if key == PAST:
            return tell_past(self._store.journal(self._claim.agent_id))
        found = self._store.load_output(self._claim.agent_id, key)
        return self._store.load_output(self._inherited, key) if found is None and self._inherited else found
