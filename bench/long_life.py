"""A life of 500 turns: CPU of a late turn, beyond the API request's own, against that of an early one."""

from __future__ import annotations

import statistics
import sys
import time
from argparse import Namespace
from contextlib import closing
from typing import Any

from bench.bare import RequestPrefix, live, make_client
from bench.lives import claim_root, run_segment, submit
from bench.measure import Report
from bench.served import serve
from swarm.agent.history import fold
from swarm.core.settings import Settings
from swarm.models import ModelRequest, Reply
from swarm.models.anthropic import AnthropicModel
from tests.fleet import Fleet

TURNS = 500
ROUNDS = 7
EARLY = slice(3, 23)
LATE = slice(TURNS - 22, TURNS - 2)
_IDLE_SECONDS = 0.05
"""For how long the process sleeps after each reply that is looked at. A processor that has slept begins slowly: 1.05 ms of CPU between two
requests become 1.83 after 15 ms of sleep, which is what the server takes longer to read a late request. So all sleep alike."""


class Metered(AnthropicModel):
    """A model that notes this process's CPU time where a request begins and ends."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.requests: list[float] = []
        self.between: list[float] = []
        self._ended = time.process_time()

    def complete(self, request: ModelRequest, *hearers: Any, **named: Any) -> Reply:
        """Make the request with the real model."""
        began = time.process_time()
        self.between.append(began - self._ended)
        reply = super().complete(request, *hearers, **named)
        self.requests.append(time.process_time() - began)
        if len(self.between) < EARLY.stop or len(self.between) >= LATE.start:
            time.sleep(_IDLE_SECONDS)
        self._ended = time.process_time()
        return reply


class Counted(AnthropicModel):
    """A model that counts the function calls of this process between requests: no neighbour on the machine changes them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.between: list[int] = []
        self._calls = 0

    def _note(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def complete(self, request: ModelRequest, *hearers: Any, **named: Any) -> Reply:
        """Make the request with the real model, uncounted."""
        sys.setprofile(None)
        self.between.append(self._calls)
        reply = super().complete(request, *hearers, **named)
        self._calls = 0
        sys.setprofile(self._note)
        return reply


def run(report: Report, chosen: Namespace) -> None:
    """What is ours is the time between requests, and what our request costs more than the bare SDK's of that turn."""
    earlies: list[float] = []
    lates: list[float] = []
    with serve() as url, closing(Fleet()) as fleet:
        client = make_client(url)
        for _ in range(ROUNDS):
            metered = Metered.rehearsing(fleet.settings, url)
            claim = claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}"))
            _, history = run_segment(fleet, claim, metered)
            assert history.turns == TURNS, history.turns
            bare: list[float] = []
            live(client, RequestPrefix.of(history), fleet.workspace, bare)
            began = time.process_time()
            fold(claim.agent_id, fleet.swarm.store.journals.read(claim.agent_id))
            folding = time.process_time() - began
            early, late = (statistics.median(metered.between[part]) * 1e3 for part in (EARLY, LATE))
            earlies += metered.between[EARLY]
            lates += metered.between[LATE]
            report.note(f"between requests: {early:.2f} ms a turn early, {late:.2f} ms late")
            ours = [statistics.median(metered.requests[part]) * 1e3 for part in (EARLY, LATE)]
            theirs = [statistics.median(bare[part]) * 1e3 for part in (EARLY, LATE)]
            report.note(
                f"the request: {ours[0]:.2f} ms early, {ours[1]:.2f} ms late; "
                f"bare SDK {theirs[0]:.2f} and {theirs[1]:.2f} ms"
            )
            report.note(f"loading and folding the whole journal, once a wake: {folding * 1e3:.0f} ms")
        counted = Counted.rehearsing(fleet.settings, url)
        run_segment(fleet, claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}")), counted)
        sys.setprofile(None)
        few, many = (statistics.median(counted.between[part]) for part in (EARLY, LATE))
        report.note(f"function calls between requests: {few:,.0f} a turn early, {many:,.0f} late")
    report.figure("long_life, calls", many / few, "×", target=1.2)
    report.figure("long_life, CPU", statistics.median(lates) / statistics.median(earlies), "×", target=1.2)
