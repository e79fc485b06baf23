"""Examines a model's server: asks for real whether it holds what requests assume of it.

Differences that requests can avoid are facts, which the fleet remembers like those of refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from swarm.core.errors import ModelError, SwarmError
from swarm.core.settings import Settings
from swarm.core.usage import Charge
from swarm.models import ModelRequest, RateLimits, Reply, Usage
from swarm.models.anthropic import AnthropicModel
from swarm.models.catalogue import charge_for, context_tokens
from swarm.models.connection import connect
from swarm.models.facts import NO_FACTS, ModelFacts, read_refusal

SYSTEM = "You are examined. Follow each instruction exactly, in as few words as possible."
_FATAL = frozenset({"authentication", "permission", "billing", "spend_limit", "connection", "not_found"})


class Observation(NamedTuple):
    """An observation of the server."""

    ok: bool
    words: str
    facts: ModelFacts = NO_FACTS


class Assumption(NamedTuple):
    """One assumption about servers."""

    name: str
    look: Callable[[Examination], Observation]
    follows: str
    """The consequence where the server differs."""
    needed: bool = False
    """Whether agents cannot work without it."""


@dataclass(frozen=True)
class ServerFinding:
    """A row's result."""

    name: str
    ok: bool
    seen: str
    follows: str = ""
    """The consequence for agents; empty if the assumption holds."""
    needed: bool = False
    """Whether agents cannot work without it."""


@dataclass
class Examination:
    """One examination of one model of the server that the settings name."""

    settings: Settings
    model: str
    facts: ModelFacts = NO_FACTS
    """Facts seen so far."""
    charge: Charge = field(default_factory=Charge)
    limits: RateLimits = field(default_factory=RateLimits)
    last: Reply | None = None
    window: int = 0
    """The model's context window, as the server or the table states it."""
    called: list[dict[str, Any]] = field(default_factory=list)
    """The conversation of the calls in parallel, which later rows continue."""

    def __post_init__(self) -> None:
        self.window = context_tokens(self.model, prices_file=self.settings.prices_file)
        self.adapter = AnthropicModel(self.settings)
        self._client = connect(self.settings, rehearsing=False)

    def run(self, rows: Iterable[Assumption]) -> Iterator[ServerFinding]:
        """Yield the rows' findings. After one that no request could survive the others are not asked."""
        for row in rows:
            try:
                seen = row.look(self)
            except SwarmError as error:
                seen = Observation(False, str(error), read_refusal(error))
                if row.needed and isinstance(error, ModelError) and error.kind in _FATAL:
                    yield ServerFinding(row.name, False, seen.words, row.follows, needed=True)
                    return
            self.facts += seen.facts
            yield ServerFinding(row.name, seen.ok, seen.words, "" if seen.ok else row.follows, row.needed)

    def close(self) -> None:
        """Close the connections."""
        self.adapter.close()
        self._client.close()

    def ask(self, *messages: dict[str, Any] | str, **about: Any) -> Reply:
        """Ask for one reply, as agents do. Raises as `Model.complete`."""
        given = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        request = ModelRequest(
            **{
                "model": self.model,
                "system": SYSTEM,
                "messages": given,
                "max_tokens": 2_000,
                "facts": self.facts,
                **about,
            }
        )
        reply = self.adapter.complete(request, on_limits=self._note_limits)
        self.charge += charge_for(reply.model, reply.usage, instead=self.model, prices_file=self.settings.prices_file)
        self.last = reply
        return reply

    def fetch(self, path: str) -> Any:
        """Get a document of the server. Raises `ModelError`."""
        return self._asked(lambda: self._client.get(path, cast_to=object))

    def send(self, body: dict[str, Any], path: str = "/v1/messages", *, key: str = "") -> Any:
        """Post a body as it is. Raises `ModelError`."""
        headers = {"authorization": f"Bearer {key}", "x-api-key": key} if key else {}
        answer = self._asked(
            lambda: self._client.post(
                path, body={"model": self.model, **body}, cast_to=object, options={"headers": headers}
            )
        )
        if isinstance(answer, dict) and isinstance(usage := answer.get("usage"), dict):
            counts = {name: usage.get(name) or 0 for name in Usage.model_fields}
            self.charge += charge_for(self.model, Usage(**counts), prices_file=self.settings.prices_file)
        return answer

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            failure = self.adapter.explain(error, self.model)
            if failure is None:
                raise
            raise failure from error

    def _note_limits(self, limits: RateLimits) -> None:
        self.limits = limits
