"""The gateway alone, for a person's own program: its requests are a job, with a budget, a place with the governor, and a price.

The job has one agent, which no worker takes: the program that serves holds its claim. Each reply is an entry with its tokens
and its cost, and without its words.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from swarm.agent.entries import Assistant, Finished, Prompt, Started
from swarm.capabilities.harnesses.gateway import Gateway
from swarm.capabilities.harnesses.request_budget import RequestBudget, TurnedDown, describe_limit
from swarm.core.usage import Counters
from swarm.definitions.model import AgentDefinition
from swarm.runtime.segment import Segment
from swarm.store.values import GoOn

LONE = AgentDefinition(
    name="proxy",
    description="Requests of a person's own program.",
    prompt="",
    command=["swarm", "proxy"],
    instruction_files=False,
)
"""The definition of such a job's agent."""
_LOOK_SECONDS = 0.5


class LoneGateway:
    """The gateway of one claimed agent."""

    def __init__(self, segment: Segment, models: dict[str, str]) -> None:
        """`models` are the allowed ones by the program's names for them."""
        self._segment, self._journal = segment, segment.journal
        self._trouble: list[BaseException] = []
        self.budget = RequestBudget(segment, models, servers_tools=True)
        self.gateway = Gateway(self.budget, lambda told: {}, self._trouble.append)

    @property
    def job_id(self) -> str:
        """The job of the requests."""
        return self._segment.spec.job_id

    def serve(self, port: int, worker: str, begin: Callable[[], None], over: threading.Event) -> Finished:
        """Serve until `over` is set or the job ends; `begin` is called once it serves. Returns the job's end.

        Raises `OSError` if the port is taken, and `NotOwner` or `AgentCancelled` if the job has ended from outside.
        """
        segment, journal = self._segment, self._journal
        journal.load()
        journal.append([Started(spec=segment.spec), Prompt(text=segment.spec.prompt)], activity="serving")
        self.gateway.listen(port)
        renewed = time.monotonic()
        try:
            begin()
            while not over.wait(_LOOK_SECONDS):
                self._note()
                if time.monotonic() - renewed > segment.settings.lease_seconds / 4:
                    renewed = time.monotonic()
                    segment.store.leases.renew(worker, [segment.spec.agent_id], segment.settings.lease_seconds)
                if self._trouble:
                    raise self._trouble[0]
                if segment.claim.deadline is not None and segment.claim.now() > segment.claim.deadline:
                    break
        finally:
            over_now = TurnedDown(402, "billing_error", "the proxy has ended")
            self.budget.close(over_now)
            self.gateway.close()
            self.budget.give_up(over_now)
        self._note()
        return self._finish()

    def _note(self) -> None:
        """Journal the cost of requests since the last time."""
        spent = self.budget.take_all()
        if not spent.names:
            return
        charges = {**spent.fields(), "model": spent.own.model or self._segment.spec.model}
        entry = Assistant(content=[], stop_reason="end_turn", **charges)
        count = Counters(turns=len(spent.names))
        settle = self.budget.is_limited
        self._journal.append([entry], activity="serving", counters=count, settle=settle, reported=spent.names)
        self.budget.renew()

    def _finish(self) -> Finished:
        empty = self.budget.empty
        finished = Finished(state="completed", text=f"{self._segment.history.usage.total_tokens:,} tokens were used.")
        if empty is not None:
            limit = "tokens" if empty.name == "tokens" else "budget"
            finished = Finished(state="failed", reason=describe_limit(empty), stopped_at=limit)
        finished = self._journal.stamp(finished)
        answer = self._segment.store.agents.finish(self._segment.claim, self._journal.next_number, finished)
        if not isinstance(answer, GoOn):
            self._segment.publish(answer)
        return finished
