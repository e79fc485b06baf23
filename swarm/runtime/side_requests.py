"""Small requests beside an agent's conversation, which use and report the fleet's limits.

Requests by tools are reserved in advance, and paid in the step that stores the call's result. Until then the agent's record holds their
use, which is charged by the step that takes the agent from its worker.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from swarm.agent.blocks import BYTES_PER_TOKEN
from swarm.core.errors import Interrupted, ModelError, PermanentModelError, SwarmError, ToolError
from swarm.core.usage import Charge, Usage
from swarm.models import Begin, ModelRequest, Progress, RateLimits, Reply, Told
from swarm.models.catalogue import charge_for, cost_usd, resolve_model
from swarm.runtime.budget import Prices, charge_of, reservation_aside
from swarm.runtime.facts import KnownFacts
from swarm.runtime.segment import Segment
from swarm.runtime.share import end_of
from swarm.store.slots import CallEnd
from swarm.store.values import Granted, Reservation
from swarm.tools import Consultation

_EXPECTED_OUTPUT = 500
_LONGEST_WAIT_SECONDS = 60.0
"""Longest wait for a side request's turn."""
_SEARCH_USD = 0.01
"""$10 a thousand searches by the server's own tool, plus tokens (price list of 2026-11)."""


def complete_aside(
    segment: Segment,
    request: ModelRequest,
    tokens: int,
    on_progress: Progress | None = None,
    on_begin: Begin | None = None,
    on_send: Callable[[], None] = lambda: None,
) -> Reply:
    """Make one attempt once limits allow it, and another after a refusal that told facts; `on_send` is called just before each.

    Raises as `Model.complete`, and `Interrupted`.
    """
    facts, hearers = KnownFacts(segment), (on_progress, on_begin, on_send)
    try:
        return _attempt(segment, _fitting(request, facts), tokens, *hearers)
    except PermanentModelError as error:
        if not facts.learn(request.model, error):
            raise
    return _attempt(segment, _fitting(request, facts), tokens, *hearers)


def _fitting(request: ModelRequest, facts: KnownFacts) -> ModelRequest:
    return replace(request, facts=facts.of(request.model))


def _attempt(
    segment: Segment,
    request: ModelRequest,
    tokens: int,
    on_progress: Progress | None,
    on_begin: Begin | None,
    on_send: Callable[[], None],
) -> Reply:
    limit_class, hook_state = segment.model.limit_class(request.model), [RateLimits()]
    wait = segment.store.rates.ask_aside(limit_class, tokens, _EXPECTED_OUTPUT)
    if wait > 0:
        segment.stop.event.wait(min(wait, _LONGEST_WAIT_SECONDS))
        segment.stop.check()
    call = CallEnd(limit_class, "lost", 0, 0)
    try:
        on_send()
        reply = segment.model.complete(request, on_progress, None, hook_state.append, on_begin)
        fresh = reply.usage.input_tokens + reply.usage.cache_creation_input_tokens
        call = CallEnd(limit_class, "ok", fresh, reply.usage.output_tokens, limits=hook_state[-1])
    except SwarmError as error:
        call = replace(end_of(error, limit_class), limits=hook_state[-1])
        raise
    finally:
        segment.publish(segment.store.rates.settle_aside(call, tokens, _EXPECTED_OUTPUT))
    return reply


class SideRequests:
    """Makes the side requests of one segment's tools, which may run side by side."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._spent: dict[str, Charge] = {}
        self._under_way: defaultdict[str, dict[int, Charge]] = defaultdict(dict)
        self._lock, self._noting = threading.Lock(), threading.Lock()

    def asker(self, tool_use_id: str, check: Callable[[], None]) -> Callable[[Consultation], Reply]:
        """Make a call's asking function. `check` runs while the reply streams, and may raise."""

        def ask(consultation: Consultation) -> Reply:
            request = self._request(consultation)
            foresee = partial(self._foresee, tool_use_id, request)
            with self._reserved(tool_use_id, self._reservation(request)):
                check()
                try:
                    reply = complete_aside(
                        self._segment, request, self._size(request), lambda _: check(), foresee, foresee
                    )
                except (ModelError, Interrupted) as error:
                    self._note(
                        tool_use_id, request, charge_of(error, instead=request.model, prices_file=self._prices_file)
                    )
                    raise
            charge = charge_for(reply.model, reply.usage, instead=request.model, prices_file=self._prices_file)
            searches = _SEARCH_USD * sum(block.get("name") == "web_search" for block in reply.content)
            self._note(tool_use_id, request, charge + Charge(cost_usd=searches))
            return reply

        return ask

    def spent(self, tool_use_id: str) -> Charge:
        """The charge of this call's requests."""
        return self._spent.pop(tool_use_id, Charge())

    @property
    def _prices_file(self) -> Path | None:
        return self._segment.settings.prices_file

    def _request(self, consultation: Consultation) -> ModelRequest:
        spec, settings = self._segment.spec, self._segment.settings
        model = resolve_model(
            consultation.model or settings.small_model,
            default=self._segment.model_id,
            parent=self._segment.model_id,
            prices_file=settings.prices_file,
        )
        known = cost_usd(model, Usage(), prices_file=settings.prices_file) is not None
        if consultation.model and spec.limits.budget_usd is not None and not known:
            raise ToolError(f"the price of the model {model} is not known, so the job's budget could not be enforced")
        return ModelRequest(
            model=model,
            system=consultation.system,
            messages=consultation.messages,
            tools=list(consultation.tools),
            max_tokens=consultation.max_tokens,
        )

    def _reservation(self, request: ModelRequest) -> Reservation:
        prices = Prices(request.model, self._segment.settings.prices_file)
        return reservation_aside(self._size(request), prices, cached=0, most=request.max_tokens)

    @staticmethod
    def _size(request: ModelRequest) -> int:
        content = json.dumps([request.tools, request.messages], ensure_ascii=False)
        return int((len(content.encode()) + len(request.system.encode())) / BYTES_PER_TOKEN)

    @contextmanager
    def _reserved(self, tool_use_id: str, reservation: Reservation) -> Iterator[None]:
        limits = self._segment.spec.limits
        if limits.max_tokens is None and limits.budget_usd is None:
            yield
            return
        # An agent holds one reservation of the budget at a time.
        with self._lock:
            if not isinstance(
                self._segment.store.agents.reserve(self._segment.claim, reservation, final=False), Granted
            ):
                raise ToolError("the job's budget has no room for this now; continue without it")
            # The step that stores the result returns the reservation; without a reply, the agent's next reservation does.
            yield

    def _foresee(self, tool_use_id: str, request: ModelRequest, told: Told | None = None) -> None:
        """Note the use of a request that is under way, in case its reply is lost: its input is known once the reply has begun."""
        output = Usage(output_tokens=min(request.max_tokens, _EXPECTED_OUTPUT))
        if told is None:
            usage = estimated = Usage(input_tokens=self._size(request)) + output
        else:
            usage, estimated = told.usage.model_copy(update=output.model_dump(include={"output_tokens"})), output
        charge = charge_for(
            request.model, usage, instead=request.model, estimated=estimated, prices_file=self._prices_file
        )
        with self._noting:
            self._under_way[tool_use_id][id(request)] = charge
            self._tell(tool_use_id)

    def _note(self, tool_use_id: str, request: ModelRequest, charge: Charge) -> None:
        """Note the use of a request that has ended."""
        with self._noting:
            self._spent[tool_use_id] = self._spent.get(tool_use_id, Charge()) + charge
            if self._under_way[tool_use_id].pop(id(request), None) is not None:
                self._tell(tool_use_id)

    def _tell(self, tool_use_id: str) -> None:
        use = sum(self._under_way[tool_use_id].values(), self._spent.get(tool_use_id, Charge()))
        self._segment.store.agents.note_side_call(self._segment.claim, tool_use_id, use)
