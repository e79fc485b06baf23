"""The models' part of the store: the ledger of tokens and money, which `budgets_common.lua` writes, and context windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta

from swarm.core.records import COUNTERS, Counters
from swarm.store.keyspace import Keyspace

KEPT_DAYS = 400
REHEARSAL = "rehearsal"
"""The model of calls that a script answered."""
_FIRST = date(1970, 1, 1)
WINDOW_SECONDS = 30 * 86_400
"""How long told windows are remembered after the last one; then the table counts again."""


class ModelStore:
    """Use and told windows of the fleet's models."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def note_window(self, model: str, tokens: int) -> None:
        """Remember a context window that a provider told, for `WINDOW_SECONDS` from now."""
        with self._keyspace.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(self._keyspace.key("windows"), model, tokens)
            pipeline.expire(self._keyspace.key("windows"), WINDOW_SECONDS)
            pipeline.execute()

    def window(self, model: str) -> int | None:
        """The context window that a provider told, in tokens."""
        found = self._keyspace.client.hget(self._keyspace.key("windows"), model)
        return None if found is None else int(found)

    def windows(self) -> dict[str, int]:
        """All context windows that providers told, in tokens, by model."""
        found = self._keyspace.client.hgetall(self._keyspace.key("windows"))
        return {model: int(tokens) for model, tokens in found.items()}

    def spending(self) -> dict[date, dict[str, Counters]]:
        """The ledger by day, in UTC, and model, of the last `KEPT_DAYS` days. A day ends with the first sweep after midnight."""
        today = int(self._keyspace.now() // 86_400)
        numbers = range(today - KEPT_DAYS, today + 1)
        places = [self._keyspace.key("spent", str(number)) for number in numbers]
        *pages, now = self._keyspace.each("hgetall", [*places, self._keyspace.key("spent")])
        return subtract_pages(dict(zip(numbers, pages, strict=True)), now, today)


def subtract_pages(
    pages: Mapping[int, Mapping[str, str]], now: Mapping[str, str], today: int
) -> dict[date, dict[str, Counters]]:
    """Return the use of each day from the ledger's state at the beginning of days, in order, and its state now.

    Days are counted from 1970. A day without a state had no sweep, and so no use, or it is the ledger's first one.
    """
    begins = [(number, page) for number, page in pages.items() if page]
    first = int(now.get("first", today + 1))
    if not begins or begins[0][0] == first:
        begins.insert(0, (first - 1, {}))
    ends = [*(page for _, page in begins[1:]), now]
    found = {number: _subtract(end, page) for (number, page), end in zip(begins, ends, strict=True)}
    return {_FIRST + timedelta(days=number): used for number, used in found.items() if used}


def _subtract(after: Mapping[str, str], before: Mapping[str, str]) -> dict[str, Counters]:
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for field, value in after.items():
        model, _, counter = field.rpartition("|")
        if counter in COUNTERS and (change := int(value) - int(before.get(field, 0))):
            used[model][counter] = change
    return {model: Counters(**counters) for model, counters in used.items()}
