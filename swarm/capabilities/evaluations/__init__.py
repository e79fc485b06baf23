"""A capability: run a set of cases with several variants, score each run, and compare."""

from __future__ import annotations

from swarm.core.capabilities import Capability

CAPABILITY = Capability(
    acts="swarm.client.evaluation_acts",
    reads="swarm.client.evaluation_reads",
    commands={
        "Jobs": {
            "eval": "evaluate:evaluate",
            "evals": "evals:evals",
            "score": "score:score",
            "compare": "diff:compare_jobs",
        }
    },
    panels="swarm.web.panels.compare:PANELS",
)
