"""Facts about models that their servers told: used for each request, and remembered by the whole fleet."""

from __future__ import annotations

from swarm.core.log import EventLog
from swarm.models.facts import ModelFacts, name_at, read_refusal
from swarm.models.profiles import first_facts
from swarm.runtime.budget import Sizes
from swarm.runtime.segment import Segment
from swarm.store.spending import ModelStore

log = EventLog("swarm.facts")


class KnownFacts:
    """The facts about models, as one segment's requests use them."""

    def __init__(self, segment: Segment) -> None:
        self._store, self._prices_file = ModelStore(segment.store.keyspace), segment.settings.prices_file
        self._server = segment.spec.base_url or segment.settings.base_url
        self._first = first_facts(segment.settings, segment.spec.base_url)
        self._known: dict[str, tuple[ModelFacts, Sizes]] = {}

    def of(self, model: str) -> ModelFacts:
        """The facts about a model of the agent's server."""
        return self._look_up(model)[0]

    def sizes(self, model: str) -> Sizes:
        """The sizes of a model of the agent's server."""
        return self._look_up(model)[1]

    def learn(self, model: str, told: ModelFacts | BaseException) -> bool:
        """Remember the facts that a refusal or a reply told; False if none is new."""
        facts = told if isinstance(told, ModelFacts) else read_refusal(told)
        known, sizes = self._look_up(model)
        if Sizes.of(model, known + facts, self._prices_file) == sizes and set(facts.lacks) <= set(known.lacks):
            return False
        log.warning("model.facts", model=self._name(model), **facts.model_dump(exclude_defaults=True))
        self._store.add_facts(self._name(model), facts, first=self._first)
        self._known.clear()
        return True

    def _look_up(self, model: str) -> tuple[ModelFacts, Sizes]:
        if (known := self._known.get(model)) is None:
            learned = self._store.facts(self._name(model))
            facts = self._first if learned is None else learned
            known = self._known[model] = (facts, Sizes.of(model, facts, self._prices_file))
        return known

    def _name(self, model: str) -> str:
        return name_at(model, self._server)
