"""The governor's steps: slots for model calls, the server's stated limits, and the waiting line.

`swarm/capabilities/governor` has the data model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarm.models.limits import RateLimits
from swarm.store.keyspace import Keyspace, check_claim
from swarm.store.slots import CallEnd, InLine, Slot, SlotReservation, read_slot
from swarm.store.values import Claim, Signals


class RateStore:
    """The fleet's share of the model, and its users."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def ask_for_slot(self, claim: Claim, reservation: SlotReservation) -> tuple[Slot | InLine | None, Signals]:
        """Ask for a slot without writing an entry. Raises as `append`."""
        answer = self._keyspace.run("ask_for_slot", claim.agent_id, claim.generation, reservation.encode())
        check_claim(answer, claim)
        if answer[0] != "ok":
            return None, Signals()
        return read_slot(reservation.limit_class, answer[2:]), Signals(publish=answer[1])

    def let_others_begin(self, prefix: str, *, begun: bool) -> tuple[bool, Signals]:
        """Continue agents that wait for the first reply to requests with this prefix; returns whether some still wait.

        The caller may be listening to that reply, so this does not wait for an unavailable Redis.
        """
        left, publish = self._keyspace.run_now("let_others_begin", prefix, int(begun))
        return bool(left), Signals(publish=publish)

    def apply_limits(self, limit_class: str, limits: RateLimits) -> Signals:
        """Apply the limits of the first reply in an unknown class. Does not wait for an unavailable Redis."""
        return Signals(*self._keyspace.run_now("apply_limits", limit_class, json.dumps(list(limits))))

    def ask_aside(self, limit_class: str, tokens: int, output: int) -> float:
        """Reserve a small request beside an agent's conversation; returns the seconds until it may be made."""
        return float(self._keyspace.run("ask_aside", limit_class, tokens, output))

    def settle_aside(self, call: CallEnd, tokens: int, output: int) -> Signals:
        """Settle such a request, which reserved these amounts."""
        return Signals(*self._keyspace.run("settle_aside", call.encode(), tokens, output))

    def serve_classes(self) -> tuple[Signals, float | None]:
        """Give out slots if there may be room; returns the seconds until there may be room for the next waiter."""
        publish, due = self._keyspace.run("serve_classes")
        return Signals(publish=publish), float(due) if due else None

    def set_ceiling(self, limit_class: str, ceiling: Sequence[int | None]) -> Signals | None:
        """Bound requests, input and output a minute, whatever is learned; 0: no bound, None: as it is. None for an unknown class."""
        return self._steer(limit_class, "ceiling", *("" if one is None else one or "none" for one in ceiling))

    def hold(self, limit_class: str, seconds: float) -> Signals | None:
        """Allow no requests for so long."""
        return self._steer(limit_class, "hold", seconds)

    def release(self, limit_class: str) -> Signals | None:
        """End a hold, and forget what refusals have taught."""
        return self._steer(limit_class, "release")

    def _steer(self, limit_class: str, act: str, *values: str | float) -> Signals | None:
        answer = self._keyspace.run("steer_class", limit_class, act, *values)
        return Signals(*answer) if answer else None

    def limit_classes(self) -> list[tuple[str, dict[str, Any], int, dict[str, int]]]:
        """Each class: its name, its account, the number of slot holders, and waiters by job."""
        told = self._keyspace.run("show_classes")
        found = []
        for name, account, slots, lines in zip(told[::4], told[1::4], told[2::4], told[3::4], strict=True):
            waiting = {job: int(count) for job, count in zip(lines[::2], lines[1::2], strict=True)}
            found.append((name, json.loads(account), int(slots), waiting))
        return found
