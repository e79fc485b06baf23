"""Estimates the cost of a model call from the size of the request that is sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from swarm.agent.history import History
from swarm.core.usage import Charge
from swarm.models import Told, Usage
from swarm.models.catalogue import charge_for, context_tokens, cost_usd, max_output, price_of
from swarm.models.facts import ModelFacts
from swarm.store.values import NANO, Reservation

MAX_REPLY_TOKENS = 32_000
EXPECTED_REPLY_TOKENS = 4_000
"""Tokens set aside for a reply before its size is known."""
LEAST_REPLY_TOKENS = 300
"""The shortest reply worth asking for, in tokens."""
LAST_REPLY_TOKENS = 1_000
LEAST_SUMMARY_TOKENS = 2_000
CHILD_RESULT_TOKENS = 100
"""The least that a child's result adds to its parent's conversation, in tokens."""
MOST_KEPT_SHARE = 0.1
"""Largest share of a budget reserved for a final answer, beyond the least reply."""
GRADER = Usage(cache_creation_input_tokens=12_000, cache_read_input_tokens=30_000, output_tokens=3_000)
"""A grader's usual usage: some turns with a look at the work …"""
MOST_FOR_GRADER = 0.2
"""… limited to this share of a limit."""
_ESTIMATE_ERROR = 0.05
"""Part of a told window that is left to errors of our estimate of a prompt."""
CACHE_SECONDS = 240.0
"""How long a conversation surely stays in the prompt cache after a reply."""


class Sizes(NamedTuple):
    """Sizes of one model, in tokens."""

    window: int
    """The most of a request and its reply together."""
    reply: int
    """The most that a reply is given."""

    @classmethod
    def of(cls, model: str, facts: ModelFacts, prices_file: Path | None) -> Self:
        """The sizes by the table of models, or smaller ones that the server told; for a model without a row, the told ones."""
        window, output = context_tokens(model, prices_file=prices_file), max_output(model, prices_file=prices_file)
        if price_of(model, prices_file=prices_file) is None:
            # The table's are guesses.
            window, output = facts.window or window, facts.max_output or output
        # Servers that count the longest reply with the prompt refuse what exceeds the window by one token.
        told = window if facts.window is None else facts.window - round(facts.window * _ESTIMATE_ERROR)
        return cls(min(window, told), min(MAX_REPLY_TOKENS, output, facts.max_output or output))


@dataclass(frozen=True)
class Prices:
    """Prices of one model's tokens.

    A model of unknown price costs nothing, and is not started under a budget."""

    model: str
    file: Path | None

    def cost(self, usage: Usage) -> int:
        """The cost in nano-dollars."""
        return round((cost_usd(self.model, usage, prices_file=self.file) or 0.0) * NANO)


def reservation_for(
    history: History, prices: Prices, *, final: bool, now: float, children: int = 0, graded: bool = True
) -> Reservation:
    """Estimate the next call, a final answer after it and, if `graded`, the grader.

    `children` are about to start."""
    least = LEAST_REPLY_TOKENS // 2 if final else LEAST_REPLY_TOKENS
    expected = LAST_REPLY_TOKENS if final else EXPECTED_REPLY_TOKENS
    call = _input(history.tokens_to_send(), _cached(history, now)) + Usage(output_tokens=least)
    spare = Usage(output_tokens=expected - least)
    closing, closing_cost = (Usage(), 0) if final else _closing(history, prices, children)
    grader_tokens, grader_cost = _for_grader(history, prices) if graded else (0, 0)
    return _reservation(call, spare, prices, (closing.total_tokens + grader_tokens, closing_cost + grader_cost))


def charge_of(error: BaseException, *, instead: str, prices_file: Path | None) -> Charge:
    """Charge what a reply told before this error ended it; nothing if it had not begun."""
    told: Told | None = getattr(error, "told", None)
    if told is None:
        return Charge()
    return charge_for(told.model, told.usage, instead=instead, estimated=told.estimated, prices_file=prices_file)


def _for_grader(history: History, prices: Prices) -> tuple[int, int]:
    """The reserve for the grader of the agent's work, in tokens and nano-dollars."""
    spec = history.spec
    if spec is None or spec.definition.outcome is None or not spec.definition.outcome.rubric:
        return (0, 0)
    tokens, cost, limits = GRADER.total_tokens, prices.cost(GRADER), spec.limits
    if limits.max_tokens is not None:
        tokens = min(tokens, round(limits.max_tokens * MOST_FOR_GRADER))
    if limits.budget_usd is not None:
        cost = min(cost, round(limits.budget_usd * NANO * MOST_FOR_GRADER))
    return tokens, cost


def reservation_aside(
    tokens: int, prices: Prices, *, cached: int, most: int, closing: tuple[int, int] = (0, 0)
) -> Reservation:
    """Estimate a side request of so many tokens, of which so many are cached, and a reply of `most`; `closing` stays reserved."""
    call = _input(tokens, cached) + Usage(output_tokens=LEAST_SUMMARY_TOKENS)
    spare = Usage(output_tokens=max(0, most - LEAST_SUMMARY_TOKENS))
    return _reservation(call, spare, prices, closing)


def _reservation(call: Usage, spare: Usage, prices: Prices, closing: tuple[int, int]) -> Reservation:
    cost = prices.cost(call)
    return Reservation(call.total_tokens, cost, spare.total_tokens, prices.cost(call + spare) - cost, *closing)


def _cached(history: History, now: float) -> int:
    """Estimate how many tokens of the conversation the prompt cache holds."""
    if history.last is not None:
        return history.known_tokens if now - history.last.at < CACHE_SECONDS else 0
    # A child shares the prefix of its requests with its siblings.
    is_child = history.spec is not None and history.spec.parent_id is not None
    return history.prefix_tokens() if is_child and not history.known_tokens else 0


def _closing(history: History, prices: Prices, children: int) -> tuple[Usage, int]:
    """The usage and cost of a final answer after the next reply."""
    whole = history.tokens_to_send()
    results = CHILD_RESULT_TOKENS * (children + sum(call_id not in history.background for call_id in history.spawned))
    after = whole + LEAST_REPLY_TOKENS + results
    reply = Usage(output_tokens=LEAST_REPLY_TOKENS)
    warm = _input(after, whole) + reply
    cost = prices.cost(warm)
    if results and history.spec is not None and history.spec.limits.budget_usd is not None:
        # After a long wait for children the cache holds nothing. A small budget does not reserve for that alone.
        most = round(history.spec.limits.budget_usd * NANO * MOST_KEPT_SHARE)
        cost = max(cost, min(prices.cost(_input(after, 0) + reply), most))
    return warm, cost


def reply_room(history: History, sizes: Sizes, *, final: bool = False, granted: float = 1.0) -> int:
    """The longest reply that the model, its context and the granted share of the budget allow."""
    most, left = sizes.reply, sizes.window - history.tokens_to_send()
    if left < most:
        most = max(LEAST_REPLY_TOKENS, left)
    if granted < 1.0:
        least = LEAST_REPLY_TOKENS // 2 if final else LEAST_REPLY_TOKENS
        expected = LAST_REPLY_TOKENS if final else EXPECTED_REPLY_TOKENS
        most = min(most, least + int(granted * (expected - least)))
    return most


def _input(tokens: int, cached: int) -> Usage:
    """The adapter marks the end of every request, so uncached input is written to the cache."""
    return Usage(cache_read_input_tokens=min(cached, tokens), cache_creation_input_tokens=max(0, tokens - cached))
