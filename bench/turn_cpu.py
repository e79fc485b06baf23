"""CPU time of one turn of an agent's life, against bare SDK loops that have the same conversation, streaming and not."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing
from functools import partial

from bench.bare import RequestPrefix, live, make_client
from bench.lives import claim_root, run_segment, submit
from bench.measure import Report, alternate
from bench.served import serve
from swarm.models.router import AnyModel
from tests.fleet import Fleet

TURNS = 30
ROUNDS = 9
OTHERS = {
    "Chat Completions": "groq:gpt-6",
    "Responses": "openai:gpt-6",
    "the Gemini API": "gemini:gemini-3-pro",
}
"""A model for each format beside Messages."""


def run(report: Report, chosen: Namespace) -> None:
    """Count this process's CPU only: both sides do their work here, Redis and the model elsewhere."""
    with serve() as url, closing(Fleet()) as fleet:
        model = AnyModel.rehearsing(fleet.settings, url)
        client = make_client(url)

        def agent(vendors: str | None = None) -> float:
            claim = claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}", model=vendors))
            began = time.process_time()
            _, history = run_segment(fleet, claim, model)
            spent = time.process_time() - began
            assert history.turns == TURNS and history.finished is not None and history.finished.state == "completed", (
                history
            )
            return spent / TURNS

        claim = claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}"))
        opening = RequestPrefix.of(run_segment(fleet, claim, model)[1])

        def bare(streaming: bool) -> float:
            began = time.process_time()
            assert live(client, opening, fleet.workspace, streaming=streaming) == TURNS
            return (time.process_time() - began) / TURNS

        bare(True)
        others = [partial(agent, name) for name in OTHERS.values()]
        measured = alternate(ROUNDS, agent, lambda: bare(True), lambda: bare(False), *others)
        names = ("agent", "bare SDK, streaming", "bare SDK, not streaming", *(f"agent over {form}" for form in OTHERS))
        for name, times in zip(names, measured, strict=True):
            middle = statistics.median(times) * 1e3
            report.note(f"{name} {middle:.2f} ms a turn ({min(times) * 1e3:.2f}–{max(times) * 1e3:.2f})")
        ours, streamed, whole, *of_others = map(statistics.median, measured)
        report.figure("turn_cpu", ours / streamed, "×", target=0.6)
        report.figure("turn_cpu, not streaming", ours / whole, "×", target=1.0)
        for form, spent in zip(OTHERS, of_others, strict=True):
            report.figure(f"turn_cpu, {form} against Messages", spent / ours, "×", target=1.0)
