"""One agent's part of the fleet's share of the model: the slot it requests and returns.

The step that writes a request's content also requests its slot, and the step that writes the reply returns it. A turn thus needs no extra
step. An agent without a slot parks until the governor grants one.

Among agents with equal request prefixes one begins first, so that the others read the prompt cache that it writes. The others park
without a process until the first reply begins, at most `GATE_SECONDS`. This is a hint and no dependency: if the first agent dies or
gives its process back, another one becomes the first.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.agent.blocks import BYTES_PER_TOKEN, size_of
from swarm.agent.entries import Entry, Mail, ModelFailed, Prompt, Started, ToolFinished
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.core.errors import TransientModelError
from swarm.core.log import EventLog
from swarm.core.usage import Charge
from swarm.models import RateLimits, Usage
from swarm.models.catalogue import charge_for, least_cached
from swarm.models.encoder import describe_prefix
from swarm.runtime.budget import CACHE_SECONDS, EXPECTED_REPLY_TOKENS
from swarm.store.outage import REDIS_ERRORS
from swarm.store.slots import CallEnd, Ending, InLine, Slot, SlotReservation
from swarm.store.store import Store
from swarm.store.values import Claim, Signals

log = EventLog("swarm.sharing")
GATE_SECONDS = 30.0
"""Longest wait for a first reply to begin."""
_NO_WAIT_SECONDS = 0.002
"""Tolerated difference between two clocks."""
_LEAST_BYTES_PER_TOKEN = 4.5
"""A high estimate: a prefix too short for the cache is not worth a wait."""
_ENDINGS: dict[str, Ending] = {"rate_limit": "limited", "overloaded": "overloaded"}


def name_prefix(spec: AgentSpec, system: str, tools: list[dict[str, Any]], prices_file: Path | None) -> tuple[str, int]:
    """Name a prefix for the prompt cache, empty if too short for it; and its size in bytes."""
    digest, size = describe_prefix(spec.model, system, tools, f"{spec.definition.effort} {spec.base_url}")
    is_held = size / _LEAST_BYTES_PER_TOKEN >= least_cached(spec.model, prices_file=prices_file)
    return digest if is_held else "", size


class Share:
    """One agent's use of the limits of one class."""

    def __init__(self, claim: Claim, limit_class: str, prices_file: Path | None) -> None:
        self.limit_class = limit_class
        self.slot: Slot | InLine | None = claim.slot if claim.slot and claim.slot.limit_class == limit_class else None
        self._now, self._spec, self._prices_file = claim.now, claim.spec, prices_file
        self.model = claim.spec.model
        """The full id of the model that the agent asks now."""
        self._limits: tuple[RateLimits, float] | None = None

    def turn_to(self, model: str, limit_class: str, slot: Slot | None = None) -> None:
        """Ask for slots of this model from now on; `slot` is one that the agent may hold."""
        self.model, self.limit_class = model, limit_class
        self._spec = self._spec.model_copy(update={"model": model})
        self.slot = slot if slot is not None and slot.limit_class == limit_class else None

    @property
    def is_ready(self) -> bool:
        """Whether a call may start now."""
        slot = self.slot
        return not self.limit_class or (isinstance(slot, Slot) and slot.at - self._now() < _NO_WAIT_SECONDS)

    # -- before a call -------------------------------------------------------------------------------------------

    def foresee(self, history: History, entries: Sequence[Entry]) -> tuple[SlotReservation | None, Charge | None]:
        """Foresee the call that these entries, about to be written, lead to; None for none.

        Returns the reservation of its slot, unless it must wait or needs none, and its estimated charge."""
        wanted, last = self._wanted_after(history, entries), entries[-1]
        if wanted is None:
            return None, None
        retries = isinstance(last, ModelFailed) and last.retry_at > last.at
        charge = self._charge(wanted, history, entries) if self._spec.definition.asks_model else None
        return wanted if self.limit_class and not retries else None, charge

    def _charge(self, wanted: SlotReservation, history: History, entries: Sequence[Entry]) -> Charge:
        if isinstance(entries[0], Started):
            whole = wanted.tokens + wanted.cold
        else:
            whole = history.tokens_to_send() + math.ceil(sum(map(_size_of, entries)) / BYTES_PER_TOKEN)
        # A child reads the prefix of its siblings' requests.
        fresh = wanted.tokens + (wanted.cold if self._spec.parent_id is None else 0)
        usage = Usage(
            cache_creation_input_tokens=fresh,
            cache_read_input_tokens=max(0, whole - fresh),
            output_tokens=EXPECTED_REPLY_TOKENS,
        )
        return charge_for(self._spec.model, usage, estimated=usage, prices_file=self._prices_file)

    def _wanted_after(self, history: History, entries: Sequence[Entry]) -> SlotReservation | None:
        last = entries[-1]
        if not isinstance(last, ToolFinished | Prompt | Mail | ModelFailed):
            return None
        if isinstance(last, ModelFailed) and last.permanent:
            return None
        if isinstance(entries[0], Started):
            return self._first(entries[0].system, entries[0].tools, sum(map(_size_of, entries)))
        settled = {entry.tool_use_id for entry in entries if isinstance(entry, ToolFinished)}
        if history.pending.keys() - settled:
            return None
        return self.reservation(history, sum(map(_size_of, entries)))

    def reservation(self, history: History, more_bytes: int = 0) -> SlotReservation:
        """The reservation for the next call, after the conversation grows by so many bytes."""
        if history.last is None:
            return self._first(history.system, history.tools, history.new_bytes + more_bytes)
        fresh = math.ceil((history.new_bytes + more_bytes) / BYTES_PER_TOKEN)
        is_cached = history.known_tokens and self._now() - history.last.at < CACHE_SECONDS
        # The next request is the first to read a reply.
        known = history.last.usage.output_tokens if is_cached else history.known_tokens
        return SlotReservation(self.limit_class, fresh + known)

    def _first(self, system: str, tools: list[dict[str, Any]], more_bytes: int) -> SlotReservation:
        fresh = math.ceil(more_bytes / BYTES_PER_TOKEN)
        if self._spec.fork is not None:
            # The parent's requests have cached the fork's prefix.
            return SlotReservation(self.limit_class, fresh)
        name, size = name_prefix(self._spec, system, tools, self._prices_file)
        cold = math.ceil(size / BYTES_PER_TOKEN)
        return (
            SlotReservation(self.limit_class, fresh, cold, name)
            if name
            else SlotReservation(self.limit_class, fresh + cold)
        )

    # -- after it ------------------------------------------------------------------------------------------------

    def heed(self, limits: RateLimits) -> None:
        """Remember limits that the server has just stated."""
        self._limits = (limits, time.monotonic())

    def end(self, usage: Usage) -> CallEnd | None:
        """Report a call that ended with a reply."""
        fresh = usage.input_tokens + usage.cache_creation_input_tokens
        return self._over(CallEnd(self.limit_class, "ok", fresh, usage.output_tokens))

    def fail(self, error: BaseException, history: History) -> CallEnd | None:
        """Report a call that ended without a reply."""
        sent = isinstance(error, TransientModelError) and error.kind in ("cut", "timeout")
        return self._over(end_of(error, self.limit_class, tokens=self.reservation(history).tokens if sent else 0))

    def _over(self, call: CallEnd) -> CallEnd | None:
        if not self.limit_class:
            return None
        self.slot, hook_state = None, self._limits
        self._limits = None
        return call if hook_state is None else replace(call, limits=hook_state[0], age=time.monotonic() - hook_state[1])


def end_of(error: BaseException, limit_class: str, *, tokens: int = 0) -> CallEnd:
    """Describe the end of a failed call that may have used so many input tokens."""
    if not isinstance(error, TransientModelError):
        return CallEnd(limit_class, "lost", tokens, 0)
    ending = _ENDINGS.get(error.kind, "lost")
    return CallEnd(limit_class, ending, tokens, 0, after=error.retry_after_seconds or 0.0)


class Gate:
    """Releases siblings when the agent's first reply begins, or after `GATE_SECONDS`."""

    def __init__(self, store: Store, publish: Callable[[Signals], None], prefix: str) -> None:
        self._store, self._publish, self._prefix = store, publish, prefix
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Start the timer, just before the first request."""
        if self._prefix and self._timer is None:
            self._timer = threading.Timer(GATE_SECONDS, self._open, [self._prefix, False])
            self._timer.daemon = True
            self._timer.start()

    def open(self) -> None:
        """Release the siblings: a reply has begun."""
        prefix, self._prefix = self._prefix, ""
        if prefix:
            self.close()
            self._open(prefix, True)

    def close(self) -> None:
        """Stop the timer. Siblings not released yet wake by timers of their own."""
        if self._timer is not None:
            self._timer.cancel()

    def _open(self, prefix: str, begun: bool) -> None:
        left = True
        try:
            while left:
                left, effect = self._store.rates.let_others_begin(prefix, begun=begun)
                self._publish(effect)
        except REDIS_ERRORS as error:
            log.debug("gate.stuck", error=error)


def _size_of(entry: Entry) -> int:
    match entry:
        case ToolFinished(blocks=list() as blocks, text=text):
            return len(text) + sum(map(size_of, blocks))
        case ToolFinished() | Prompt() | Mail():
            return len(entry.text)
    return 0
