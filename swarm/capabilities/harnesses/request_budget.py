"""The job's money for requests that another program makes in an agent's name: reserved before each, settled after it.

The steps are those of the runtime's own model calls. The agent's record holds a request's use from its start on, so a death of
the worker loses no charge. The journal takes it over with the next entry (`RequestBudget.take`). Requests come on several
threads; entries are written on one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from swarm.agent import notes
from swarm.agent.blocks import BYTES_PER_TOKEN
from swarm.capabilities.harnesses.store import HarnessStore
from swarm.core.errors import AgentCancelled, NotOwner
from swarm.core.usage import NANO, Charge
from swarm.models import RateLimits, Told, Usage
from swarm.models.catalogue import charge_for, cost_usd, max_output
from swarm.models.passage import PassedRequest
from swarm.runtime.budget import CACHE_SECONDS, MAX_REPLY_TOKENS, Prices, reservation_aside
from swarm.runtime.segment import Segment
from swarm.store.slots import CallEnd, Ending, Slot, SlotReservation
from swarm.store.values import Granted, OutOfBudget, Reservation

if TYPE_CHECKING:
    from swarm.models.router import AnyModel

_AGAIN_SECONDS = 0.5
"""How often a request looks whether it may be made: its program waits, and so cannot park."""
_HELD_SECONDS = 60.0
"""How long a request is held back: its program is ended meanwhile."""
_EXPECTED_OUTPUT = 500
_LAST_SECONDS = 0.5
"""How long the end of a run waits for the ends of its requests, which know their cost better than it was foreseen."""
_ENDINGS: Mapping[int, Ending] = {429: "limited", 529: "overloaded"}


@dataclass(frozen=True)
class TurnedDown:
    """A request that is not passed on: an HTTP status, and its reason."""

    status: int
    kind: str
    message: str


@dataclass
class Ticket:
    """A request that may be made."""

    name: str
    model: str
    """The full id."""
    room: int | None
    """The longest reply; None: as long as the program asks for."""
    tokens: int
    child: str
    """The program's own name of the agent of its own that asks; empty for the conversation itself."""
    holds_slot: bool
    reservation: Reservation | None = None
    has_turn: bool = False
    """Whether the governor has counted it."""
    foreseen: Charge | None = None
    """The expected charge, once the agent's record holds it: the request may be sent from then on."""
    settled: bool = False


@dataclass
class UnreportedCharges:
    """Charges that no entry reports yet."""

    own: Charge = field(default_factory=Charge)
    """Charges of the agent's model."""
    beside: dict[str, Charge] = field(default_factory=dict)
    """Charges of other models, by model."""
    names: list[str] = field(default_factory=list)
    """The requests, as the agent's record names them."""

    def fields(self) -> dict[str, Any]:
        """Return them as fields of an entry."""
        return {**dict(self.own), "beside": tuple(self.beside.values())}


class RequestBudget:
    """The money of one running agent."""

    def __init__(
        self,
        segment: Segment,
        models: Mapping[str, str],
        *,
        most_requests: int | None = None,
        servers_tools: bool = False,
    ) -> None:
        """`models` are the allowed ones by the program's names for them. `most_requests` bounds those of the conversation.

        `servers_tools`: the model's server may search the web or run code for it."""
        self._segment, self._models, self._left = segment, models, most_requests
        self._servers_tools = servers_tools
        self._store, self._claim, self._spec = segment.store, segment.claim, segment.spec
        self._steps = HarnessStore(segment.store.keyspace, segment.claim)
        self._prices_file = segment.settings.prices_file
        self._held: dict[str, Reservation] = {}
        self._spent: dict[str, UnreportedCharges] = {}
        self._open: dict[str, Ticket] = {}
        """Requests that may have been sent, until their ends are in the agent's record."""
        # An agent that keeps its claim can have several runs.
        self._run, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._lock = threading.RLock()
        self._ended = threading.Condition(self._lock)
        self._cached = (0, -math.inf)
        """Tokens of the last request of the conversation, which its server's cache holds, and when."""
        self.closed: TurnedDown | None = None
        """Why no request is passed on any more."""
        self.empty: OutOfBudget | None = None
        """The limit that has ended the program."""
        self.hold_back: Callable[[], bool] = lambda: False
        """Asked before each request of the conversation; True holds it back for good, because the agent leaves its process."""

    @property
    def model(self) -> AnyModel:
        """The model's server."""
        return cast("AnyModel", self._segment.model)

    @property
    def is_limited(self) -> bool:
        """Whether requests need a reservation."""
        return self._spec.limits.max_tokens is not None or self._spec.limits.budget_usd is not None

    def close(self, refusal: TurnedDown) -> None:
        """Refuse all further requests."""
        self.closed = self.closed or refusal

    # -- a request, on any thread ---------------------------------------------------------------------------------

    def admit(self, request: PassedRequest, child: str) -> Ticket | TurnedDown:
        """Reserve money and take a turn at the server for a request; waits for both. Raises `SwarmError` of the steps."""
        model = self._models.get(request.model)
        if not self._servers_tools:
            request.drop_servers_tools()
        if model is None:
            allowed = ", ".join(self._models)
            return TurnedDown(404, "not_found_error", f"the model {request.model} is not allowed here, only {allowed}")
        if self.is_limited and cost_usd(model, Usage(), prices_file=self._prices_file) is None:
            return TurnedDown(402, "billing_error", f"the price of {model} is not known, so the budget cannot be kept")
        is_turn = not child and request.offers_tools
        if self.closed is None and is_turn and self._left is not None:
            if self._left <= 0:
                self.close(TurnedDown(402, "billing_error", "the limit of turns is reached"))
            self._left -= 1
        if self.closed is not None:
            return self.closed
        if is_turn and self.hold_back():
            self._wait(_HELD_SECONDS)
            return TurnedDown(503, "overloaded_error", "the agent continues elsewhere")
        name = f"request-{self._segment.claim.generation}-{self._run}-{next(self._numbers)}"
        ticket = Ticket(name, model, None, math.ceil(request.size / BYTES_PER_TOKEN), child, is_turn)
        if (refused := self._reserve(request, ticket)) is not None:
            return refused
        begun = False
        try:
            self._await_turn(ticket)
            begun = self._begin(ticket)
        finally:
            if not begun:
                self.settle(ticket, None, 0, RateLimits())
        return ticket if begun else cast("TurnedDown", self.closed)

    def _begin(self, ticket: Ticket) -> bool:
        """Note the foreseen charge of a request; False if none is passed on any more. One step with `give_up`."""
        output = min(ticket.room or _EXPECTED_OUTPUT, _EXPECTED_OUTPUT)
        usage = Usage(input_tokens=ticket.tokens, output_tokens=output)
        with self._lock:
            if self.closed is not None:
                return False
            foreseen = charge_for(ticket.model, usage, estimated=usage, prices_file=self._prices_file)
            self._note(ticket, foreseen)
            ticket.foreseen, self._open[ticket.name] = foreseen, ticket
            return True

    def settle(self, ticket: Ticket, told: Told | None, status: int, limits: RateLimits, *, after: float = 0.0) -> None:
        """Note the usage and the end of a request; a repeat does nothing. `after`: the server's wish to wait, in seconds."""
        charge = Charge()
        usage = Usage() if told is None else told.usage
        if told is not None and usage.total_tokens:
            charge = charge_for(
                told.model or ticket.model,
                usage,
                instead=ticket.model,
                estimated=told.estimated,
                prices_file=self._prices_file,
            )
        ending: Ending = "ok" if told is not None and status < 300 else _ENDINGS.get(status, "lost")
        fresh = usage.input_tokens + usage.cache_creation_input_tokens
        call = CallEnd(self.model.limit_class(ticket.model), ending, fresh, usage.output_tokens, after, limits)
        self._end(ticket, charge, call, None if told is None else usage.total_tokens)

    def lose(self, ticket: Ticket) -> None:
        """Settle a sent request whose reply will not be read: as it was foreseen."""
        charge = ticket.foreseen or Charge()
        tokens = charge.usage.input_tokens, charge.usage.output_tokens
        self._end(ticket, charge, CallEnd(self.model.limit_class(ticket.model), "lost", *tokens))

    def give_up(self, refusal: TurnedDown) -> None:
        """Refuse all further requests, and settle those under way, so that `take_all` returns every charge.

        It waits a moment for their own ends; the others are charged as foreseen, and their own ends change nothing any more.
        """
        self.close(refusal)
        with self._ended:
            self._ended.wait_for(lambda: not self._open, _LAST_SECONDS)
            left = list(self._open.values())
        for ticket in left:
            # An agent of another owner was charged for them by the step that took it.
            with contextlib.suppress(NotOwner, AgentCancelled):
                self.lose(ticket)

    def _end(self, ticket: Ticket, charge: Charge, call: CallEnd, cached: int | None = None) -> None:
        """Note the end of a request, once: in the agent's record first, as an entry may report it from then on."""
        with self._lock:
            if ticket.settled:
                return
            ticket.settled = True
        try:
            if ticket.has_turn:
                self._note(ticket, charge, call if ticket.holds_slot else None)
            if ticket.has_turn and not ticket.holds_slot:
                self._segment.publish(self._store.rates.settle_aside(call, ticket.tokens, _EXPECTED_OUTPUT))
        finally:
            with self._ended:
                if ticket.holds_slot and cached is not None:
                    self._cached = cached, time.monotonic()
                self._held.pop(ticket.name, None)
                self._open.pop(ticket.name, None)
                if ticket.foreseen is not None:
                    self._keep_charge(ticket, charge)
                self._ended.notify_all()

    def _keep_charge(self, ticket: Ticket, charge: Charge) -> None:
        spent = self._spent.setdefault(ticket.child, UnreportedCharges())
        spent.names.append(ticket.name)
        if charge.model in ("", self._spec.model):
            spent.own += charge
        else:
            spent.beside[charge.model] = spent.beside.get(charge.model, Charge()) + charge

    def _reserve(self, request: PassedRequest, ticket: Ticket) -> TurnedDown | None:
        """Reserve for all requests under way and this one, as the budget keeps one reservation an agent."""
        if not self.is_limited:
            return None
        most = min(
            request.longest or MAX_REPLY_TOKENS,
            MAX_REPLY_TOKENS,
            max_output(ticket.model, prices_file=self._prices_file),
        )
        cached, at = self._cached
        known = cached if ticket.holds_slot and time.monotonic() - at < CACHE_SECONDS else 0
        prices = Prices(ticket.model, self._prices_file)
        wanted = reservation_aside(ticket.tokens, prices, cached=known, most=most)
        while True:
            with self._lock:
                others = _sum(self._held.values())
                answer = self._store.agents.reserve(self._claim, _sum((others, wanted)), final=False)
                if isinstance(answer, Granted):
                    least = most - wanted.spare_tokens
                    ticket.room = least + int(answer.part * wanted.spare_tokens)
                    part = Reservation(
                        wanted.tokens + int(answer.part * wanted.spare_tokens),
                        wanted.cost + int(answer.part * wanted.spare_cost),
                    )
                    ticket.reservation = self._held[ticket.name] = part
                    return None
                self._renew()
            if isinstance(answer, OutOfBudget):
                self.empty = answer
                self.close(TurnedDown(402, "billing_error", describe_limit(answer)))
                return self.closed
            # Others' requests hold the rest: their ends give it back.
            self._wait(_AGAIN_SECONDS)

    def _renew(self) -> None:
        """Reserve again for the requests under way."""
        if self._held:
            self._store.agents.reserve(self._claim, _sum(self._held.values()), final=False)

    def _await_turn(self, ticket: Ticket) -> None:
        limit_class = self.model.limit_class(ticket.model)
        if not ticket.holds_slot:
            seconds = self._store.rates.ask_aside(limit_class, ticket.tokens, _EXPECTED_OUTPUT)
            ticket.has_turn = True
            self._wait(seconds)
            return
        while True:
            slot, effect = self._store.rates.ask_for_slot(self._claim, SlotReservation(limit_class, ticket.tokens))
            self._segment.publish(effect)
            if isinstance(slot, Slot):
                ticket.has_turn = True
                self._wait(slot.at - self._claim.now())
                return
            self._wait(_AGAIN_SECONDS)

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            self._segment.stop.event.wait(seconds)
        self._segment.stop.check()

    def _note(self, ticket: Ticket, charge: Charge, call: CallEnd | None = None) -> None:
        self._segment.publish(self._steps.note_request(ticket.name, charge, call=call))

    # -- the journal, on its own thread ---------------------------------------------------------------------------

    def take(self, child: str | None = None) -> UnreportedCharges:
        """Take the charges that no entry reports yet: those of an agent of the program, or all others."""
        with self._lock:
            if child is not None:
                return self._spent.pop(child, UnreportedCharges())
            return self._spent.pop("", UnreportedCharges())

    def take_all(self) -> UnreportedCharges:
        """Take all charges that no entry reports yet."""
        with self._lock:
            parts, self._spent = list(self._spent.values()), {}
        whole = UnreportedCharges()
        for part in parts:
            whole.own += part.own
            whole.names += part.names
            for model, charge in part.beside.items():
                whole.beside[model] = whole.beside.get(model, Charge()) + charge
        return whole

    def renew(self) -> None:
        """Reserve again for the requests under way, after an entry gave all reservations back."""
        with self._lock:
            self._renew()


def describe_limit(answer: OutOfBudget) -> str:
    """Describe the limit that leaves no room for a request."""
    what = f"{answer.limit:,} tokens" if answer.name == "tokens" else f"${answer.limit / NANO:.4f}"
    whose = notes.ALLOWANCE_USED if answer.name == "allowance" else "the job's limit"
    return f"{whose} of {what} is used up"


def _sum(parts: object) -> Reservation:
    tokens = cost = spare_tokens = spare_cost = 0
    for part in cast("tuple[Reservation, ...]", parts):
        tokens, cost = tokens + part.tokens, cost + part.cost
        spare_tokens, spare_cost = spare_tokens + part.spare_tokens, spare_cost + part.spare_cost
    return Reservation(tokens, cost, spare_tokens, spare_cost)
