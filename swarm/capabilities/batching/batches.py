"""Requests that wait for a batch, which may, and the lots that they are sent in, as Redis keeps them.

Guarantees: a request is in one lot, and in it before it is sent; a lot is looked at by one worker at a time; a reply wakes its agent in
the step that notes it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.definitions.model import AgentDefinition
from swarm.store.keyspace import Keyspace
from swarm.store.values import Claim, Signals

MOST_IN_LOT = 1_000
"""Requests of one batch: all of its replies come when the last one is there."""
MOST_BYTES = 32 * 1024 * 1024
LOOK_SECONDS = 120.0
"""How long a worker may take to send a lot, or to look at one, before another one does."""


@dataclass(frozen=True)
class Lot:
    """Requests that were, or are about to be, sent as one batch."""

    id: str
    server: str
    """A rehearsal server, or empty."""
    made_at: float
    count: int
    batch: str = ""
    """The API's id; empty while that is not known."""
    sure: bool = False
    """The API said so, and it was not only found."""
    refused: Sequence[str] = ()
    """Batches that were looked at, and are others."""


@dataclass(frozen=True)
class DueLots:
    """The lots to look at now, with what is known of all of them."""

    now: float
    taken: Sequence[str]
    """Batches that belong to a lot."""
    lots: Sequence[Lot]


class Batches:
    """The batch lane of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def ask(self, claim: Claim, request: str, server: str, body: str) -> dict[str, Any] | str:
        """Have a request sent, once however often this is called; its reply if it is there, else why not (`asked`, or a refusal)."""
        answer = self._keyspace.run("ask_batch", claim.agent_id, claim.generation, request, server, body)
        return dict(json.loads(answer[1])) if answer[0] == "reply" else str(answer[0])

    def has_work(self) -> bool:
        """Whether anything waits or is under way."""
        return bool(
            self._keyspace.client.exists(self._keyspace.key("batch", "waiting"), self._keyspace.key("batch", "lots"))
        )

    def make_lot(self, seconds: float) -> tuple[Lot, dict[str, Any]] | None:
        """A lot of the requests that wait, with their bodies, once the first has waited for so long: its taker is to send it."""
        lot = "lot-" + secrets.token_hex(8)
        found = self._keyspace.run("make_lot", lot, seconds, MOST_IN_LOT, MOST_BYTES, LOOK_SECONDS)
        if not found:
            return None
        bodies = _pairs(found[1:])
        return Lot(lot, found[0], self._keyspace.now(), len(bodies)), bodies

    def due(self) -> DueLots:
        """Take the lots that are to be looked at."""
        now, taken, *found = self._keyspace.run("due_lots", LOOK_SECONDS)
        rows = [found[first : first + 7] for first in range(0, len(found), 7)]
        lots = [
            Lot(lot, server, float(made), int(count), batch, sure == "1", json.loads(refused))
            for lot, server, made, count, batch, sure, refused in rows
        ]
        return DueLots(float(now), json.loads(taken), lots)

    def note(self, lot: Lot, batch: str, *, sure: bool, again_in: float, wrong: str = "") -> None:
        """The lot is this batch, as far as is known; it is looked at again after so long."""
        self._keyspace.run("note_lot", lot.id, batch, int(sure) if sure else "", again_in, wrong)

    def bodies(self, lot: Lot) -> dict[str, Any]:
        """The requests of a lot that have no reply."""
        return _pairs(self._keyspace.run("read_lot", lot.id))

    def reply(self, lot: Lot, replies: Mapping[str, Any]) -> Signals:
        """Give these requests their replies."""
        given = [part for request, reply in replies.items() for part in (request, json.dumps(reply))]
        return Signals(publish=self._keyspace.run("reply_batch", lot.id, *given)[0])

    def close(self, lot: Lot) -> list[str]:
        """The lot's batch has ended; returns the requests that it said nothing of, and ends the lot if there are none."""
        return list(self._keyspace.run("close_lot", lot.id))


def _pairs(found: Sequence[str]) -> dict[str, Any]:
    return {request: json.loads(body) for request, body in zip(found[::2], found[1::2], strict=True)}


def refuse_more_turns(definition: AgentDefinition, provider: str, *, summaries: bool, copies: bool) -> None:
    """Raise `ConfigurationError` for what may take more than one request, or cannot be had as a batch."""
    if provider != "anthropic":
        raise ConfigurationError(f"provider {provider} has no batches; leave --batch away")
    wants = {
        "has tools (its `tools` must be an empty list)": definition.tools != [],
        "is a program": bool(definition.command),
        "remembers": definition.memory is not None,
        "has work that is checked or graded": definition.outcome is not None,
        "is told of in summaries": summaries,
        "works on copies of files": copies,
    }
    if found := [what for what, holds in wants.items() if holds]:
        raise ConfigurationError(
            f"only what takes one request can go by a batch, and {definition.name!r} {' and '.join(found)}; "
            "leave --batch away, or take a type of agent that only answers, as `answer` does"
        )
