"""A segment without a worker: what everything that acts for a running agent works with."""

from __future__ import annotations

from swarm.core.settings import Settings
from swarm.runtime.journal import Journal
from swarm.runtime.segment import Segment, Stop
from swarm.store.store import Store
from swarm.store.values import Claim


def make_segment(claim: Claim, store: Store, settings: Settings | None = None) -> Segment:
    """The segment of a claim; nobody is told of what its steps ask for."""
    return Segment(
        claim,
        store=store,
        journal=Journal(claim, store),
        settings=settings or Settings(),
        publish=lambda effect: None,
        stop=Stop(claim.agent_id),
    )
