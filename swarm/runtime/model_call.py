"""One call of the model: money and tokens are set aside before it, its reply or its failure is journaled after it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from swarm.agent import notes
from swarm.agent.decision import CallModel
from swarm.agent.entries import Assistant, Finished, ModelFailed
from swarm.agent.life import Life
from swarm.errors import ConfigurationError, PermanentModelError, TransientModelError
from swarm.log import EventLog
from swarm.models import Block, Model, ModelRequest, Reply, Usage
from swarm.models.backoff import backoff_seconds
from swarm.models.catalogue import cost_usd, max_output
from swarm.runtime.segment import Segment
from swarm.store.values import NANO, Counters, OutOfBudget

log = EventLog("swarm.model")

WARN_AT_SHARE = 0.8
MAX_REPLY_TOKENS = 32_000
EXPECTED_REPLY_TOKENS = 4_000
"""What is set aside for a reply before its size is known."""


@dataclass(frozen=True)
class Reserved:
    """The call can be made."""


@dataclass(frozen=True)
class Told:
    """Something was said to the agent instead: what is next must be asked again."""


class ModelCall:
    """The model as one running agent calls it."""

    def __init__(self, segment: Segment, model: Model, describe: Callable[[Block], str]) -> None:
        self._segment, self._model, self._describe = segment, model, describe
        self._journal, self._settings, self._stop = segment.journal, segment.settings, segment.stop
        self._spec = segment.spec
        self._told_activity_at = time.monotonic()

    @property
    def _life(self) -> Life:
        return self._journal.life

    def request(self, action: CallModel) -> None:
        """Ask for the next reply, and journal it, or why there is none. Raises `Interrupted`."""
        # Built without validation: walking the whole conversation again would make late turns dearer than early ones.
        request = ModelRequest.model_construct(
            model=self._spec.model,
            system=self._life.system,
            messages=self._life.messages,
            tools=self._life.tools,
            max_tokens=min(MAX_REPLY_TOKENS, max_output(self._spec.model, prices_file=self._settings.prices_file)),
            tools_allowed=action.tools_allowed,
            effort=self._spec.definition.effort,
        )
        began = time.monotonic()
        try:
            with self._stop.waiting():
                reply = self._model.complete(request, self._tell_activity)
        except (PermanentModelError, ConfigurationError) as error:
            # The latter: this worker cannot have the model at all, because of its settings.
            kind = error.kind if isinstance(error, PermanentModelError) else "configuration"
            self._journal.append(
                [ModelFailed(error=str(error), error_kind=kind, permanent=True)], settle=self._reserves
            )
            return
        except TransientModelError as error:
            delay = backoff_seconds(self._life.failures, error, random.random())
            log.warning("model.failed", agent_id=self._spec.agent_id, kind=error.kind, again_in_seconds=delay)
            failed = ModelFailed(
                error=str(error), error_kind=error.kind, permanent=False, retry_at=self._segment.claim.now() + delay
            )
            self._journal.append([failed], activity=f"waiting for the model ({error.kind})", settle=self._reserves)
            return
        cost = self._cost(reply.model, reply.usage)
        entry = Assistant(
            content=reply.content,
            stop_reason=reply.stop_reason,
            usage=reply.usage,
            cost_usd=cost,
            model=reply.model,
            request_id=reply.request_id,
            duration_seconds=time.monotonic() - began,
        )
        self._journal.append(
            [entry], activity=self._activity(reply), counters=_reply_counters(reply, cost), settle=self._reserves
        )

    @property
    def _reserves(self) -> bool:
        return self._spec.limits.max_tokens is not None or self._spec.limits.budget_usd is not None

    def reserve(self) -> Reserved | Told | Finished:
        """Reserve what the next reply may use."""
        limits, deadline = self._spec.limits, self._segment.claim.deadline
        if deadline is not None and self._segment.claim.now() > deadline and self._life.last_words is None:
            self._journal.append([notes.last_words("time", "The job has reached its time limit.")])
            return Told()
        if not self._reserves:
            return Reserved()
        final = self._life.last_words is not None
        expected = Usage(
            input_tokens=self._expected_input_tokens(),
            output_tokens=EXPECTED_REPLY_TOKENS // 4 if final else EXPECTED_REPLY_TOKENS,
        )
        answer = self._segment.store.reserve(
            self._segment.claim, expected.total_tokens, round(self._cost(self._spec.model, expected) * NANO)
        )
        if isinstance(answer, OutOfBudget):
            what = f"${answer.limit / NANO:.4f}" if answer.name == "budget" else f"{answer.limit:,} tokens"
            if final or self._life.turns == 0:
                return Finished(state="failed", text=self._life.text(), reason=f"the job's limit of {what} is used up")
            self._journal.append([notes.last_words(answer.name, f"The job's limit of {what} is nearly used up.")])
            return Told()
        if answer >= WARN_AT_SHARE and not self._life.warned and not final:
            # It follows the prompt it belongs to; the request that carries it is made on the next step.
            self._journal.append([notes.nearly_used_up("tokens" if limits.max_tokens else "budget", answer)])
        return Reserved()

    def _cost(self, model: str, usage: Usage) -> float:
        """What a request cost, in dollars; a model of unknown price counts as the one that was asked for."""
        prices = self._settings.prices_file
        known = cost_usd(model, usage, prices_file=prices)
        return known if known is not None else cost_usd(self._spec.model, usage, prices_file=prices) or 0.0

    def _expected_input_tokens(self) -> int:
        last = self._life.last
        return last.usage.total_tokens if last is not None else len(self._spec.prompt) // 3 + 3_000

    def _activity(self, reply: Reply) -> str:
        for block in reply.content:
            if block.get("type") == "tool_use":
                return self._describe(block)
        return "answering"

    def _tell_activity(self, activity: str) -> None:
        if (now := time.monotonic()) - self._told_activity_at >= 1.0:
            self._told_activity_at = now
            with self._stop.unbroken():
                self._segment.store.tell_activity(self._segment.claim, activity)


def _reply_counters(reply: Reply, cost: float) -> Counters:
    return Counters(
        turns=1,
        input=reply.usage.input_tokens,
        output=reply.usage.output_tokens,
        cache_write=reply.usage.cache_creation_input_tokens,
        cache_read=reply.usage.cache_read_input_tokens,
        cost=round(cost * NANO),
    )
