"""The models' part of the store: the ledger of tokens and money, which `budgets_common.lua` writes, and facts that servers told."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta

from pydantic import ValidationError

from swarm.core.usage import COUNTERS, NANO, Counters
from swarm.models.facts import NO_FACTS, ModelFacts
from swarm.store.keyspace import Keyspace

KEPT_DAYS = 400
REHEARSAL = "rehearsal"
"""The model of calls that a script answered."""
_FIRST = date(1970, 1, 1)
FACTS_SECONDS = 30 * 86_400
"""How long told facts about a model are remembered after its last one; then the table counts again."""
_READ_SECONDS = 60.0
_READ_MODELS = 64

_read: dict[tuple[str, str], tuple[float, ModelFacts | None]] = {}
"""Facts that this process read, by key and model, and until when they count."""


class ModelStore:
    """Use of the fleet's models, and what their servers told about them."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def add_facts(self, model: str, told: ModelFacts, *, first: ModelFacts = NO_FACTS) -> None:
        """Remember told facts about a model, beside the known ones, for `FACTS_SECONDS` from now; `first` holds if none is known."""
        known = _parse_facts(self._keyspace.client.hget(self._keyspace.key("facts"), model))
        self.set_facts(model, (first if known is None else known) + told)

    def set_facts(self, model: str, facts: ModelFacts) -> None:
        """Remember these facts about a model instead of the known ones, for `FACTS_SECONDS` from now."""
        key = self._keyspace.key("facts")
        kept = facts.model_dump(exclude_defaults=True) | {"until": int(time.time()) + FACTS_SECONDS}
        with self._keyspace.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, model, json.dumps(kept))
            pipeline.expire(key, FACTS_SECONDS)
            pipeline.execute()
        _read[key, model] = (time.monotonic() + _READ_SECONDS, facts)

    def facts(self, model: str) -> ModelFacts | None:
        """The facts that a server told about a model, named `MODEL at SERVER`, or MODEL at the provider's own; None: nothing told.

        A process asks Redis now and then, not for each agent.
        """
        key = (self._keyspace.key("facts"), model)
        known = _read.get(key)
        if known is None or known[0] < time.monotonic():
            if len(_read) >= _READ_MODELS:
                _read.clear()
            found = _parse_facts(self._keyspace.client.hget(*key))
            known = _read[key] = (time.monotonic() + _READ_SECONDS, found)
        return known[1]

    def all_facts(self) -> dict[str, ModelFacts]:
        """The facts that servers told, by model."""
        found = self._keyspace.client.hgetall(self._keyspace.key("facts"))
        return {model: facts for model, text in found.items() if (facts := _parse_facts(text)) is not None}

    def spending(self) -> dict[date, dict[str, Counters]]:
        """The ledger by day, in UTC, and model, of the last `KEPT_DAYS` days. A day ends with the first sweep after midnight."""
        today = int(self._keyspace.now() // 86_400)
        numbers = range(today - KEPT_DAYS, today + 1)
        places = [self._keyspace.key("spent", str(number)) for number in numbers]
        *pages, now = self._keyspace.each("hgetall", [*places, self._keyspace.key("spent")])
        return subtract_pages(dict(zip(numbers, pages, strict=True)), now, today)


def read_allowances(keyspace: Keyspace, job_id: str, agent_id: str) -> dict[str, float]:
    """Return the dollars that the agents of each of an agent's allowances have used, by its name."""
    found = keyspace.client.hgetall(keyspace.key("job", job_id, "allowances"))
    parts = ((*field.rpartition("|")[::2], value) for field, value in found.items())
    own = f"{agent_id}/"
    return {
        name.removeprefix(own): int(value) / NANO
        for name, amount, value in parts
        if amount == "used" and name.startswith(own)
    }


def name_allowance(agent_id: str, name: str) -> str:
    """Return the name, in its job, of an agent's allowance for agents below it."""
    return f"{agent_id}/{name}"


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


def _parse_facts(text: str | None) -> ModelFacts | None:
    """Read a model's facts; None if there are none, or they are too old."""
    try:
        told = {} if text is None else json.loads(text)
        return ModelFacts.model_validate(told) if told.get("until", 0) > time.time() else None
    except (ValidationError, ValueError):  # of another release
        return None
