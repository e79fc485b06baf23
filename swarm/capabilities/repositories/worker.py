"""A worker's offer of the servers whose repositories it may use."""

from __future__ import annotations

from collections.abc import Mapping

from swarm.agent.needs import offer
from swarm.runtime.additions import WorkerPart


class ForgesOfWorker(WorkerPart):
    """The servers that the worker's settings name."""

    def offers(self) -> Mapping[str, str]:
        return {offer("forge", name): "" for name in self.settings.forges}
