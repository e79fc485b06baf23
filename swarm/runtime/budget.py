"""What a call of the model will take: an estimate from the size of the request that is really sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swarm.agent.history import History
from swarm.models import Usage
from swarm.models.catalogue import context_tokens, cost_usd, max_output
from swarm.store.values import NANO, Reservation

MAX_REPLY_TOKENS = 32_000
EXPECTED_REPLY_TOKENS = 4_000
"""What is set aside for a reply before its size is known."""
LEAST_REPLY_TOKENS = 300
"""With less than this a reply is not worth asking for."""
LAST_REPLY_TOKENS = 1_000
LEAST_SUMMARY_TOKENS = 2_000
CHILD_RESULT_TOKENS = 100
"""What a child's result adds to its parent's conversation, at least."""
MOST_KEPT_SHARE = 0.1
"""Of a budget, what is kept for one agent's last reply at most, beyond what the reply takes at least."""
GRADER = Usage(cache_creation_input_tokens=12_000, cache_read_input_tokens=30_000, output_tokens=3_000)
"""What a grader takes: some turns with a look at the work …"""
MOST_FOR_GRADER = 0.2
"""… but no more of a limit than this share."""
CACHE_SECONDS = 240.0
"""For so long after a reply its conversation is surely found in the prompt cache."""


@dataclass(frozen=True)
class Prices:
    """What tokens of one model cost; a model of unknown price costs nothing, and is not started where a budget is to be kept."""

    model: str
    file: Path | None

    def cost(self, usage: Usage) -> int:
        """In nano-dollars."""
        return round((cost_usd(self.model, usage, prices_file=self.file) or 0.0) * NANO)


def reservation_for(
    history: History, prices: Prices, *, final: bool, now: float, children: int = 0, graded: bool = True
) -> Reservation:
    """What the next call takes, and what a last reply after it would, and the grader of the work if it is to be `graded`; `children`
    are about to be started."""
    least = LEAST_REPLY_TOKENS // 2 if final else LEAST_REPLY_TOKENS
    expected = LAST_REPLY_TOKENS if final else EXPECTED_REPLY_TOKENS
    call = _input(history.tokens_to_send(), _cached(history, now)) + Usage(output_tokens=least)
    spare = Usage(output_tokens=expected - least)
    closing, closing_cost = (Usage(), 0) if final else _closing(history, prices, children)
    grader_tokens, grader_cost = _for_grader(history, prices) if graded else (0, 0)
    return _reservation(call, spare, prices, (closing.total_tokens + grader_tokens, closing_cost + grader_cost))


def _for_grader(history: History, prices: Prices) -> tuple[int, int]:
    """What is kept for the grader of the agent's work, in tokens and nano-dollars."""
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
    tokens: int, prices: Prices, *, cached: bool, most: int, closing: tuple[int, int] = (0, 0)
) -> Reservation:
    """What a request beside the conversation takes, of so many tokens, whose reply may be `most` long. `closing` stays kept."""
    call = _input(tokens, tokens if cached else 0) + Usage(output_tokens=LEAST_SUMMARY_TOKENS)
    spare = Usage(output_tokens=max(0, most - LEAST_SUMMARY_TOKENS))
    return _reservation(call, spare, prices, closing)


def _reservation(call: Usage, spare: Usage, prices: Prices, closing: tuple[int, int]) -> Reservation:
    cost = prices.cost(call)
    return Reservation(call.total_tokens, cost, spare.total_tokens, prices.cost(call + spare) - cost, *closing)


def _cached(history: History, now: float) -> int:
    """How much of the conversation the prompt cache holds, as far as that can be told."""
    if history.last is not None:
        return history.known_tokens if now - history.last.at < CACHE_SECONDS else 0
    # What a child's requests begin with is its siblings', too.
    is_child = history.spec is not None and history.spec.parent_id is not None
    return history.prefix_tokens() if is_child and not history.known_tokens else 0


def _closing(history: History, prices: Prices, children: int) -> tuple[Usage, int]:
    """What a last reply after the next one takes, and costs."""
    whole = history.tokens_to_send()
    results = CHILD_RESULT_TOKENS * (children + sum(call_id not in history.background for call_id in history.spawned))
    after = whole + LEAST_REPLY_TOKENS + results
    reply = Usage(output_tokens=LEAST_REPLY_TOKENS)
    warm = _input(after, whole) + reply
    cost = prices.cost(warm)
    if results and history.spec is not None and history.spec.limits.budget_usd is not None:
        # Who waits long for its children finds nothing in the cache any more. A small budget is not kept back for that alone.
        most = round(history.spec.limits.budget_usd * NANO * MOST_KEPT_SHARE)
        cost = max(cost, min(prices.cost(_input(after, 0) + reply), most))
    return warm, cost


def reply_room(history: History, prices: Prices, *, final: bool = False, granted: float = 1.0) -> int:
    """How long the reply may be: what the model can write, what its context has room for, and what was granted of the purse."""
    window = context_tokens(prices.model, prices_file=prices.file) - history.tokens_to_send()
    most = min(MAX_REPLY_TOKENS, max_output(prices.model, prices_file=prices.file))
    if window < most:
        most = max(LEAST_REPLY_TOKENS, window)
    if granted < 1.0:
        least = LEAST_REPLY_TOKENS // 2 if final else LEAST_REPLY_TOKENS
        expected = LAST_REPLY_TOKENS if final else EXPECTED_REPLY_TOKENS
        most = min(most, least + int(granted * (expected - least)))
    return most


def _input(tokens: int, cached: int) -> Usage:
    """The adapter marks the end of every request, so what is not found in the cache is written to it."""
    return Usage(cache_read_input_tokens=min(cached, tokens), cache_creation_input_tokens=max(0, tokens - cached))
