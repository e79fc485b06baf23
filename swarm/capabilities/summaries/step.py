"""Summarise an agent's work for people, in a thread of the process that runs it; the agent never waits for it.

While the process waits for the model or a tool it is idle, and the history is in its memory. So a summary made here needs no process, no
turn on the fleet and no reading of journals. A summary can be lost (the process dies, Redis is unavailable): nothing depends on it.
"""

from __future__ import annotations

import threading
import time

from swarm.agent.blocks import BYTES_PER_TOKEN
from swarm.agent.compaction import Compact
from swarm.agent.decision import CallModel
from swarm.agent.digests import MOST_REPLY_TOKENS, Sort, ask_for_digest, ask_for_progress, ask_for_title, fit, system_of
from swarm.agent.entries import Finished, Redefined, Started
from swarm.core.errors import Interrupted, SwarmError
from swarm.core.log import EventLog
from swarm.core.usage import Charge
from swarm.models import ModelRequest, Usage
from swarm.models.catalogue import charge_for, resolve_model
from swarm.runtime.budget import Prices, charge_of
from swarm.runtime.parts import Parts
from swarm.runtime.side_requests import complete_aside
from swarm.runtime.steps import Step
from swarm.store.outage import RedisError

log = EventLog("swarm.summaries")
_TOLD_AGENTS = 30
_DIGEST_ATTEMPTS = 10
_TELL_AGAIN_SECONDS = (0.0, 1.0, 5.0)
"""Waits before each try to record a summary's cost, in case Redis is briefly unavailable."""


class SummaryStep(Step):
    """The summaries of one segment."""

    takes = (CallModel,)

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._segment, self._spec = parts.segment, parts.segment.spec
        self._thread: threading.Thread | None = None
        self._length = 0
        self._due_at = 0.0
        small, prices = parts.segment.settings.small_model, parts.segment.settings.prices_file
        self._small = resolve_model(small, default=small, parent=None, prices_file=prices)
        self._prices = Prices(self._small, prices)

    def before_request(self, action: CallModel | Compact) -> None:
        """Start a line about the agent, if one is due; returns at once."""
        history = self._segment.history
        if history.last is None or history.length <= self._length or time.monotonic() < self._due_at:
            return
        self._due_at, self._length = time.monotonic() + self._segment.settings.summary_seconds, history.length
        self._begin("progress", ask_for_progress(history), self._segment.settings.summary_seconds)

    def opened(self, entry: Started) -> Started:
        """Start a title if the person gave none; until then the prompt's beginning replaces it."""
        spec = self._spec
        is_untitled = spec.parent_id is None and spec.description == " ".join(spec.prompt.split())[:80]
        if is_untitled and not isinstance(entry, Redefined):
            self._begin("title", ask_for_title(spec.prompt), 0.0)
        return entry

    def at_end(self, finished: Finished) -> None:
        """Start a digest of the ended job."""
        if self._spec.parent_id is None:
            self._begin("digest", "", 0.0, finished)

    def _begin(self, sort: Sort, ask: str, interval: float, finished: Finished | None = None) -> None:
        if sort == "progress" and self._thread is not None and self._thread.is_alive():
            return
        given = (sort, ask, interval, self._segment.history.length, finished)
        self._thread = threading.Thread(target=self._make, args=given, name="summary", daemon=True)
        self._thread.start()

    # -- in the thread -----------------------------------------------------------------------------------------

    def _make(self, sort: Sort, ask: str, interval: float, length: int, finished: Finished | None) -> None:
        store, agent_id = self._segment.store, self._spec.agent_id
        try:
            if finished is not None:
                agents = store.agents.of(self._spec.job_id, answers=False)[1 : _TOLD_AGENTS + 1]
                told = [f"{agent.label}: {agent.state} {agent.reason}".strip() for agent in agents]
                ask = ask_for_digest(self._spec.prompt, finished, told)
            usage = Usage(input_tokens=_tokens(sort, ask) + 1, output_tokens=MOST_REPLY_TOKENS[sort])
            estimate = charge_for(self._small, usage, estimated=usage, prices_file=self._prices.file)
            # At the end a line about the agent may still be in progress.
            for _ in range(1 if finished is None else _DIGEST_ATTEMPTS):
                if store.events.begin_summary(agent_id, length, interval, estimate):
                    break
                time.sleep(0.0 if finished is None else 1.0)
            else:
                return
            text, charge = self._ask(sort, ask)
            self._tell(sort, text, charge)
        except (SwarmError, RedisError, OSError) as error:
            log.info("summary.not_made", agent_id=agent_id, sort=sort, why=error)

    def _ask(self, sort: Sort, ask: str) -> tuple[str, Charge]:
        """Return the small model's text, empty if it fails, and the charge."""
        request = ModelRequest(
            model=self._small,
            system=system_of(sort),
            messages=[{"role": "user", "content": [{"type": "text", "text": ask}]}],
            tools=[],
            max_tokens=MOST_REPLY_TOKENS[sort],
        )
        try:
            reply = complete_aside(self._segment, request, _tokens(sort, ask))
        except (SwarmError, Interrupted) as error:
            # The interrupt is meant for the agent; this thread merely receives it while it waits.
            log.info("summary.not_made", agent_id=self._spec.agent_id, sort=sort, why=error)
            return "", charge_of(error, instead=self._small, prices_file=self._prices.file)
        charge = charge_for(reply.model, reply.usage, instead=self._small, prices_file=self._prices.file)
        said = " ".join(str(block.get("text", "")) for block in reply.content if block.get("type") == "text")
        return fit(sort, said), charge

    def _tell(self, sort: Sort, text: str, charge: Charge) -> None:
        for seconds in _TELL_AGAIN_SECONDS:
            time.sleep(seconds)
            try:
                self._segment.store.events.show_summary(self._spec.agent_id, sort, text, charge)
                return
            except (RedisError, OSError) as error:
                log.info("summary.not_told", agent_id=self._spec.agent_id, sort=sort, why=error)


def _tokens(sort: Sort, ask: str) -> int:
    return int(len((system_of(sort) + ask).encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)
