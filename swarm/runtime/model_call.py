"""Makes one model call: reserves money and tokens, then journals its reply or failure."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from swarm.agent import notes
from swarm.agent.blocks import hold_image
from swarm.agent.compaction import ContextBounds, WantedSummary, bounds_of
from swarm.agent.decision import CallModel
from swarm.agent.entries import Assistant, Finished, ModelFailed, Prompt
from swarm.agent.history import BAD_IMAGE, LOST, OVERFLOWED, UNFIT, History
from swarm.agent.journaled import Condition
from swarm.agent.needs import ANY_MODEL
from swarm.core.errors import (
    ConfigurationError,
    Interrupted,
    ModelError,
    PermanentModelError,
    TransientModelError,
    UnfitWorker,
)
from swarm.core.ids import traceparent
from swarm.core.log import EventLog
from swarm.core.usage import Charge
from swarm.models import Block, ModelRequest, RateLimits, Reply, Usage
from swarm.models.catalogue import charge_for, price_of
from swarm.models.facts import NO_FACTS, ModelFacts
from swarm.models.failures import backoff_seconds
from swarm.models.reply import tell_apart
from swarm.models.vendors import split_model
from swarm.runtime.budget import (
    EXPECTED_REPLY_TOKENS,
    LEAST_SUMMARY_TOKENS,
    Prices,
    Sizes,
    charge_of,
    reply_room,
    reservation_for,
)
from swarm.runtime.facts import KnownFacts
from swarm.runtime.segment import Segment
from swarm.runtime.share import Gate
from swarm.runtime.token_stream import TokenStream
from swarm.store.outage import REDIS_ERRORS
from swarm.store.slots import CallEnd, Slot
from swarm.store.values import NANO, Busy, Counters, OutOfBudget, Reservation
from swarm.tools.registry import describe_call

log = EventLog("swarm.model")

WARN_AT_SHARE = 0.8
_MOST_UNFIT = 8
"""Most refusals in a row after each of which a request is made again, in case a server tells something else each time."""


@dataclass(frozen=True)
class Reserved:
    """The reservation of a call that can be made."""

    room: int = 0
    """The most tokens that the reply may have; 0 for as many as the model can write."""


@dataclass(frozen=True)
class Redirected:
    """The agent got a message instead: decide on the next action again."""


def awaited(answer: Redirected | Busy | Finished) -> Finished | Condition | None:
    """Translate a refused reservation: an end, a condition, or None to decide again."""
    match answer:
        case Busy(tokens=tokens, cost=cost):
            return Condition(budget=(tokens, cost))
        case Finished():
            return answer
    return None


class ModelCall:
    """The model as one running agent calls it."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._model = segment, segment.model
        self._journal, self._settings, self._stop = segment.journal, segment.settings, segment.stop
        self._spec, self.share = segment.spec, segment.journal.share
        self._told_activity_at = time.monotonic()
        self._kept: dict[str, dict[str, Any]] = {}
        self._words: TokenStream | None = None
        self._watched = False
        self._gate: Gate | None = None
        self._bounds: dict[tuple[str, str, Sizes], ContextBounds] = {}
        self.facts = KnownFacts(segment)

    @property
    def _history(self) -> History:
        return self._journal.history

    def bounds(self) -> ContextBounds | None:
        """Size limits of the conversation, and the wanted summary; None before the first reply, and for who cuts it by itself."""
        if not self._history.turns or self._spec.definition.harness is not None:
            return None
        wanted, prices, model = self._journal.wanted, self._settings.prices_file, self.share.model
        sizes = self.facts.sizes(model)
        if (known := self._bounds.get((wanted, model, sizes))) is None:
            price = price_of(model, prices_file=prices)
            known = self._bounds[wanted, model, sizes] = bounds_of(
                *sizes,
                most=self._settings.compact_tokens,
                dearer_above=price.above.prompt_tokens if price is not None and price.above is not None else None,
                wanted=WantedSummary(**json.loads(wanted)) if wanted else None,
            )
        return known

    def request(self, action: CallModel, reserved: Reserved) -> None:
        """Ask for the next reply; journal it or its failure. Raises `Interrupted`, `UnfitWorker`."""
        try:
            room = self.room(reserved)
            request = ModelRequest(
                model=self.share.model,
                system=self._history.system,
                messages=self._history.messages,
                tools=self._history.tools,
                max_tokens=room,
                tools_allowed=action.tools_allowed,
                effort=self._spec.definition.effort,
                kept=self._kept.setdefault(self.share.model, {}),
                facts=self.facts.of(self.share.model),
                traceparent=traceparent(self._spec.job_id, self._spec.agent_id, self._journal.next_number),
            )
            began = time.monotonic()
            with self._stop.waiting(), self._opening_for_others():
                reply = self._model.complete(request, self._tell_activity, self._take_words, self._heed_limits)
        except (PermanentModelError, ConfigurationError, TransientModelError) as error:
            self.note_failure(error)
            return
        except Interrupted as interrupt:
            if interrupt.told is not None:
                lost = ModelFailed(error="the reply was interrupted", error_kind=LOST, permanent=False)
                self._settle_failure(lost, self.charge_told(interrupt), self.share.fail(interrupt, self._history))
            raise
        finally:
            self._watched, self._words = self._words is not None and self._words.watched, None
        self.keep(reply, seconds=time.monotonic() - began, facts=request.facts)

    def room(self, reserved: Reserved) -> int:
        """The most tokens that the next reply may have."""
        return reserved.room or reply_room(self._history, self._sizes)

    def keep(self, reply: Reply, *, seconds: float, price_share: float = 1.0, facts: ModelFacts = NO_FACTS) -> None:
        """Journal a reply, with its duration and the facts that shaped its request, at that share of its price."""
        if reply.stop_reason == OVERFLOWED:
            self.facts.learn(self.share.model, ModelFacts(window=reply.usage.total_tokens))
        content = tell_apart(reply.content, self._history.call_ids, self._history.turns)
        charge = self.charge(reply.model, reply.usage).scaled(price_share)
        entry = Assistant(
            content=content,
            stop_reason=reply.stop_reason,
            **dict(charge),
            request_id=reply.request_id,
            request_sha=reply.request_sha,
            facts=facts if facts is not NO_FACTS else None,
            duration_seconds=seconds,
        )
        self._journal.hold(
            entry,
            activity=_activity(content),
            counters=Counters(turns=1),
            settle=self.reserves,
            said=self._history.reply_text.text_after(entry),
            call=self.share.end(reply.usage),
        )

    def note_failure(self, error: PermanentModelError | ConfigurationError | TransientModelError) -> None:
        """Journal a failed request. Raises `UnfitWorker`."""
        if self._spec.base_url is None and _is_the_workers(error) and self._is_left_to_others():
            # Another vendor's key says nothing about other models.
            of_one = isinstance(error, ModelError) and error.kind == "permission"
            of_one = of_one or split_model(self.share.model, self._settings.vendors) is not None
            raise UnfitWorker(str(error), self.share.model if of_one else ANY_MODEL)
        failed = describe_failure(self._history, error, self._segment.claim.now(), random.random())
        learned = self.facts.learn(self.share.model, error)
        again = learned and self._history.unfit < _MOST_UNFIT
        if again and reply_room(self._history, self._sizes) >= EXPECTED_REPLY_TOKENS:
            # The next request is another one: without the refused part, or with a shorter reply.
            failed = failed.model_copy(update={"permanent": False, "error_kind": UNFIT})
        activity = "" if failed.permanent else f"waiting for the model ({failed.error_kind})"
        if activity:
            delay = max(0.0, failed.retry_at - self._segment.claim.now())
            log.warning("model.failed", agent_id=self._spec.agent_id, kind=failed.error_kind, again_in_seconds=delay)
        self._settle_failure(failed, self.charge_told(error), self.share.fail(error, self._history), activity)

    def _is_left_to_others(self) -> bool:
        """Whether another worker continues the agent, because this one may not use its model; else another model does."""
        if self._spec.batch or not self._spec.fallbacks or not self._spec.definition.asks_model:
            return True
        from swarm.agent.chains import successors
        from swarm.runtime.switching import leave_to_others

        return leave_to_others(self._segment, anyway=not successors(self._history, self._spec))

    def _settle_failure(self, failed: ModelFailed, charge: Charge, call: CallEnd | None, activity: str = "") -> None:
        entry = failed.model_copy(update=dict(charge))
        self._journal.append([entry], activity=activity, settle=self.reserves, call=call)

    @property
    def _sizes(self) -> Sizes:
        return self.facts.sizes(self.share.model)

    @property
    def _prices(self) -> Prices:
        return Prices(self.share.model, self._settings.prices_file)

    @property
    def reserves(self) -> bool:
        """Whether calls need a reservation."""
        limited = self._spec.limits.max_tokens is not None or self._spec.limits.budget_usd is not None
        return limited and self._spec.definition.asks_model

    def closing(self, children: int, *, graded: bool = True) -> tuple[int, int]:
        """Tokens and nano-dollars to reserve for the agent's final answer and its grader.

        The agent is about to start so many children.
        """
        if not self.reserves:
            return (0, 0)
        now = self._segment.claim.now()
        reservation = reservation_for(
            self._history, self._prices, final=False, now=now, children=children, graded=graded
        )
        return (reservation.closing_tokens, reservation.closing_cost)

    def reserve(self, reservation: Reservation | None = None) -> Reserved | Redirected | Busy | Finished:
        """Reserve tokens and money for the next reply, or for another call by `reservation`.

        Returns `Busy` if calls of others hold the rest: the agent must wait until they end."""
        if (limit := self._reached_limit()) is not None:
            self._journal.append([limit])
            return Redirected()
        if not self.reserves:
            return Reserved()
        final, now = self._history.final_answer is not None, self._segment.claim.now()
        wanted = reservation or reservation_for(self._history, self._prices, final=final, now=now)
        answer = self._segment.store.agents.reserve(self._segment.claim, wanted, final=final)
        if final and isinstance(answer, OutOfBudget) and (wanted.closing_tokens or wanted.closing_cost):
            # An ungraded final answer is better than none.
            wanted = replace(wanted, closing_tokens=0, closing_cost=0)
            answer = self._segment.store.agents.reserve(self._segment.claim, wanted, final=True)
        match answer:
            case OutOfBudget():
                return self._refused(answer, final=final)
            case Busy():
                return answer
        if reservation is not None:
            return Reserved(LEAST_SUMMARY_TOKENS + int(answer.part * wanted.spare_tokens))
        if answer.used >= WARN_AT_SHARE and not self._history.warned and not final:
            # The note follows its prompt; the next step makes the request with it.
            of_tokens = self._spec.limits.max_tokens
            self._journal.append([notes.nearly_used_up("tokens" if of_tokens else "budget", answer.used)])
        return Reserved(reply_room(self._history, self._sizes, final=final, granted=answer.part))

    def _reached_limit(self) -> Prompt | None:
        """The note on a limit of time or space that the agent has reached before its final answer."""
        deadline = self._segment.claim.deadline
        if self._history.final_answer is not None:
            return None
        if deadline is not None and self._segment.claim.now() > deadline:
            return notes.final_answer("time", "The job has reached its time limit.")
        return notes.no_space(self._journal.full) if self._journal.full else None

    def _refused(self, answer: OutOfBudget, *, final: bool) -> Redirected | Finished:
        what = f"{answer.limit:,} tokens" if answer.name == "tokens" else f"${answer.limit / NANO:.4f}"
        whose = notes.ALLOWANCE_USED if answer.name == "allowance" else "the job's limit"
        limit: Literal["tokens", "budget"] = "tokens" if answer.name == "tokens" else "budget"
        if final:
            reason = f"{whose} of {what} is used up"
            return Finished(state="failed", text=self._history.all_at_hand(), reason=reason, stopped_at=limit)
        self._journal.append([notes.final_answer(limit, f"{whose[0].upper()}{whose[1:]} of {what} is nearly used up.")])
        return Redirected()

    def charge(self, model: str, usage: Usage) -> Charge:
        """A request's charge; without a known price, by that of the requested model."""
        return charge_for(model, usage, instead=self.share.model, prices_file=self._settings.prices_file)

    def charge_told(self, error: BaseException) -> Charge:
        """The charge of a reply that ended too early."""
        return charge_of(error, instead=self.share.model, prices_file=self._settings.prices_file)

    @contextmanager
    def _opening_for_others(self) -> Iterator[None]:
        """Open the gate for siblings that wait until this first reply begins."""
        slot = self.share.slot
        opens = slot.opens if isinstance(slot, Slot) else ""
        if not opens:
            yield
            return
        self._gate = Gate(self._segment.store, self._segment.publish, opens)
        self._gate.start()
        try:
            yield
        finally:
            self._gate.close()
            self._gate = None

    def _take_words(self, number: int, block: Block, text: str) -> None:
        self._told().take(number, block, text)

    def _told(self) -> TokenStream:
        """The stream of this reply to its watchers."""
        self._words = self._words or TokenStream(self._segment, self._journal.next_number, watched=self._watched)
        return self._words

    def _heed_limits(self, limits: RateLimits) -> None:
        slot = self.share.slot
        self.share.heed(limits)
        if isinstance(slot, Slot) and not slot.known:
            # Others wait to learn the limits.
            with self._stop.unbroken(), suppress(*REDIS_ERRORS):
                self._segment.publish(self._segment.store.rates.apply_limits(self.share.limit_class, limits))

    def _tell_activity(self, activity: str) -> None:
        if not activity:
            if self._gate is not None:
                with self._stop.unbroken():
                    self._gate.open()
            return
        if (now := time.monotonic()) - self._told_activity_at >= 1.0:
            self._told_activity_at = now
            with self._stop.unbroken():
                self._told().expect(self._segment.store.events.show_activity(self._segment.claim, activity))


def _activity(content: list[Block]) -> str:
    return next((describe_call(block) for block in content if block.get("type") == "tool_use"), "answering")


def describe_failure(
    history: History, error: PermanentModelError | ConfigurationError | TransientModelError, now: float, random: float
) -> ModelFailed:
    """Make the entry for a failed attempt: whether and when to try again."""
    kind = error.kind if isinstance(error, ModelError) else "configuration"
    if not isinstance(error, TransientModelError):
        # Without its images the request differs.
        return ModelFailed(
            error=str(error), error_kind=kind, permanent=kind != BAD_IMAGE or not hold_image(history.messages)
        )
    # A server that names a retry time is reachable. Waiting for it is no failure, however often.
    limited = error.kind == "rate_limit" and error.retry_after_seconds is not None
    return ModelFailed(
        error=str(error),
        error_kind=kind,
        permanent=False,
        retry_at=now + backoff_seconds(history.failures, error, random),
        away_since=0.0 if limited else history.away_since or now,
    )


def _is_the_workers(error: Exception) -> bool:
    """Whether a failure is the worker's and not the request's."""
    return isinstance(error, ConfigurationError) or (
        isinstance(error, PermanentModelError) and error.kind in ("authentication", "permission")
    )
