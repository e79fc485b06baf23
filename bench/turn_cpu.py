"""CPU time of one turn of an agent's life, against a bare SDK loop that has the same conversation."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import RequestPrefix, live, make_client
from bench.lives import claim_root, run_segment, submit
from bench.measure import Report, alternate
from bench.served import serve
from swarm.models.anthropic import AnthropicModel
from tests.fleet import Fleet

TURNS = 30
ROUNDS = 9


def run(report: Report, chosen: Namespace) -> None:
    """Count this process's CPU only: both sides do their work here, Redis and the model elsewhere."""
    with serve() as url, closing(Fleet()) as fleet:
        model = AnthropicModel.rehearsing(fleet.settings, url)
        client = make_client(url)

        def agent() -> float:
            claim = claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}"))
            began = time.process_time()
            _, history = run_segment(fleet, claim, model)
            spent = time.process_time() - began
            assert history.turns == TURNS and history.finished is not None and history.finished.state == "completed", (
                history
            )
            return spent / TURNS

        claim = claim_root(fleet, submit(fleet, url, f"TREE depth=0 steps={TURNS - 1}"))
        opening = RequestPrefix.of(run_segment(fleet, claim, model)[1])

        def bare() -> float:
            began = time.process_time()
            assert live(client, opening, fleet.workspace) == TURNS
            return (time.process_time() - began) / TURNS

        bare()
        agents, bares = alternate(ROUNDS, agent, bare)
        ours, theirs = statistics.median(agents), statistics.median(bares)
        report.note(f"agent {ours * 1e3:.2f} ms a turn ({min(agents) * 1e3:.2f}–{max(agents) * 1e3:.2f})")
        report.note(f"bare SDK {theirs * 1e3:.2f} ms a turn ({min(bares) * 1e3:.2f}–{max(bares) * 1e3:.2f})")
        report.figure("turn_cpu", ours / theirs, "×", target=1.25)
