"""The governor's steps: who may ask the model, what its server says of its limits, who waits.

`swarm/capabilities/governor` has the data model.
"""

from __future__ import annotations

import json
from typing import Any

from swarm.models.limits import RateLimits
from swarm.store.keyspace import Keyspace, check_claim
from swarm.store.slots import CallEnd, InLine, Slot, SlotReservation, read_slot
from swarm.store.values import Claim, Signals


class RateStore:
    """The fleet's share of the model, and who may use it."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def ask_for_slot(self, claim: Claim, reservation: SlotReservation) -> tuple[Slot | InLine | None, Signals]:
        """Ask for a slot where no entry is written. Raises as `append`."""
        answer = self._keyspace.run("ask_for_slot", claim.agent_id, claim.generation, reservation.encode())
        check_claim(answer, claim)
        if answer[0] != "ok":
            return None, Signals()
        return read_slot(reservation.limit_class, answer[2:]), Signals(publish=answer[1])

    def let_others_begin(self, prefix: str, *, begun: bool) -> tuple[bool, Signals]:
        """Have those go on that wait for the first reply to requests with this prefix; returns whether some still wait.

        Whoever says so may be listening to that reply, so this does not wait for a Redis that is away.
        """
        left, publish = self._keyspace.run_now("let_others_begin", prefix, int(begun))
        return bool(left), Signals(publish=publish)

    def apply_limits(self, limit_class: str, limits: RateLimits) -> Signals:
        """A reply of a class of which nothing is known has begun. It does not wait for a Redis that is away."""
        return Signals(*self._keyspace.run_now("apply_limits", limit_class, json.dumps(list(limits))))

    def ask_aside(self, limit_class: str, tokens: int, output: int) -> float:
        """Take what a small request beside an agent's conversation needs; returns in how many seconds it may be made."""
        return float(self._keyspace.run("ask_aside", limit_class, tokens, output))

    def settle_aside(self, call: CallEnd, tokens: int, output: int) -> Signals:
        """That request has ended, for which so much was taken."""
        return Signals(*self._keyspace.run("settle_aside", call.encode(), tokens, output))

    def serve_classes(self) -> tuple[Signals, float | None]:
        """Give slots where there may be room now; returns in how many seconds there may be for the next one who waits."""
        publish, due = self._keyspace.run("serve_classes")
        return Signals(publish=publish), float(due) if due else None

    def limit_classes(self) -> list[tuple[str, dict[str, Any], int, dict[str, int]]]:
        """Of each class its name, its account, how many hold a slot, and how many of each job are in line."""
        told = self._keyspace.run("show_classes")
        found = []
        for name, account, slots, lines in zip(told[::4], told[1::4], told[2::4], told[3::4], strict=True):
            waiting = {job: int(count) for job, count in zip(lines[::2], lines[1::2], strict=True)}
            found.append((name, json.loads(account), int(slots), waiting))
        return found
