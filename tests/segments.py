"""A segment without a worker: what everything that acts for a running agent works with."""

from __future__ import annotations

from typing import cast

from swarm.core.settings import Settings
from swarm.models import Model
from swarm.runtime.segment import Segment, Stop
from swarm.store.store import Store
from swarm.store.values import Claim


class NoModel:
    """Nothing asks it, and nothing limits it."""

    def limit_class(self, model: str) -> str:
        return ""


def make_segment(claim: Claim, store: Store, settings: Settings | None = None, model: Model | None = None) -> Segment:
    """The segment of a claim; nobody is told of what its steps ask for."""
    return Segment(
        claim,
        store=store,
        settings=settings or Settings(),
        publish=lambda effect: None,
        stop=Stop(claim.agent_id),
        model=model or cast(Model, NoModel()),
    )
