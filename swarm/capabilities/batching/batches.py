"""The batch lane in Redis: requests that wait for a batch, and the lots in which they are sent.

Guarantees: a request is in one lot, and in it before it is sent; one worker at a time handles a lot; the step that stores a reply also
wakes its agent.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError
from swarm.definitions.model import AgentDefinition
from swarm.models.vendors import split_model
from swarm.runtime.additions import OrderPart
from swarm.store.keyspace import Keyspace
from swarm.store.values import Claim, Signals

MOST_IN_LOT = 1_000
"""Most requests in a batch: no reply comes before the last one is done."""
MOST_BYTES = 32 * 1024 * 1024
LOOK_SECONDS = 120.0
"""How long a worker may take to send or check a lot before another may take it."""


@dataclass(frozen=True)
class Lot:
    """Requests that were, or are about to be, sent as one batch."""

    id: str
    server: str
    """The address of a rehearsal server, or empty."""
    made_at: float
    count: int
    batch: str = ""
    """The API's id of the batch; empty while unknown."""
    sure: bool = False
    """Whether the API returned the batch; else it was found by its contents."""
    refused: Sequence[str] = ()
    """Batches that were checked and belong to other lots."""


@dataclass(frozen=True)
class DueLots:
    """The lots that are due, with the known batches of all lots."""

    now: float
    taken: Sequence[str]
    """Batches that belong to a lot."""
    lots: Sequence[Lot]


class Batches:
    """The batch lane of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def ask(self, claim: Claim, request: str, server: str, body: str) -> dict[str, Any] | str:
        """Queue a request, once however often this is called.

        Returns its reply if known, else the reason (`asked`, or a refusal).
        """
        answer = self._keyspace.run("ask_batch", claim.agent_id, claim.generation, request, server, body)
        return dict(json.loads(answer[1])) if answer[0] == "reply" else str(answer[0])

    def has_work(self) -> bool:
        """Whether any request waits or is in a lot."""
        return bool(
            self._keyspace.client.exists(self._keyspace.key("batch", "waiting"), self._keyspace.key("batch", "lots"))
        )

    def make_lot(self, seconds: float) -> tuple[Lot, dict[str, Any]] | None:
        """Make a lot of the waiting requests, with their bodies, for the caller to send; None if it is too early."""
        lot = "lot-" + secrets.token_hex(8)
        found = self._keyspace.run("make_lot", lot, seconds, MOST_IN_LOT, MOST_BYTES, LOOK_SECONDS)
        if not found:
            return None
        bodies = _pairs(found[1:])
        return Lot(lot, found[0], self._keyspace.now(), len(bodies)), bodies

    def due(self) -> DueLots:
        """Take the lots that are due."""
        now, taken, *found = self._keyspace.run("due_lots", LOOK_SECONDS)
        rows = [found[first : first + 7] for first in range(0, len(found), 7)]
        lots = [
            Lot(lot, server, float(made), int(count), batch, sure == "1", json.loads(refused))
            for lot, server, made, count, batch, sure, refused in rows
        ]
        return DueLots(float(now), json.loads(taken), lots)

    def note(self, lot: Lot, batch: str, *, sure: bool, again_in: float, wrong: str = "") -> None:
        """Note the lot's batch, as far as known; the lot is due again after so many seconds."""
        self._keyspace.run("note_lot", lot.id, batch, int(sure) if sure else "", again_in, wrong)

    def bodies(self, lot: Lot) -> dict[str, Any]:
        """The requests of a lot without a reply."""
        return _pairs(self._keyspace.run("read_lot", lot.id))

    def reply(self, lot: Lot, replies: Mapping[str, Any]) -> Signals:
        """Store the replies of these requests."""
        given = [part for request, reply in replies.items() for part in (request, json.dumps(reply))]
        return Signals(publish=self._keyspace.run("reply_batch", lot.id, *given)[0])

    def close(self, lot: Lot) -> list[str]:
        """End a lot whose batch has ended, unless requests have no reply; returns those requests."""
        return list(self._keyspace.run("close_lot", lot.id))


def _pairs(found: Sequence[str]) -> dict[str, Any]:
    return {request: json.loads(body) for request, body in zip(found[::2], found[1::2], strict=True)}


class BatchOfOrder(OrderPart):
    """A batch order."""

    def check(self, spec: AgentSpec) -> None:
        """Raise `ConfigurationError` for a root that cannot be sent in a batch."""
        provider: str = self.place.settings.provider if spec.base_url is None else "anthropic"
        copies = spec.isolation != "none" or spec.is_carried
        if (found := split_model(spec.model, self.place.settings.vendors)) is not None:
            provider = found[0].name
        refuse_more_turns(spec.definition, provider, summaries=spec.summaries, copies=copies)


def refuse_more_turns(definition: AgentDefinition, provider: str, *, summaries: bool, copies: bool) -> None:
    """Raise `ConfigurationError` for a definition that can need several requests, or has no batches."""
    if provider != "anthropic":
        raise ConfigurationError(f"provider {provider} has no batches; omit --batch")
    wants = {
        "has tools (its `tools` must be an empty list)": definition.tools != [],
        "is a program": not definition.asks_model,
        "remembers": definition.memory is not None,
        "has a check or a grader": definition.outcome is not None,
        "has summaries": summaries,
        "works on copies of files": copies,
    }
    if found := [what for what, holds in wants.items() if holds]:
        raise ConfigurationError(
            f"a batch takes only agents with one request, and {definition.name!r} {' and '.join(found)}; "
            "omit --batch, or use a type that only answers, such as `answer`"
        )
