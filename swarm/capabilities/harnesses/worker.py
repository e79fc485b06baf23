"""A worker's offer of harnesses: those whose program is here, if there is a sandbox that ends all of their processes."""

from __future__ import annotations

from collections.abc import Mapping

from swarm.agent.needs import offer
from swarm.capabilities.harnesses.programs import find_programs
from swarm.permissions.sandbox import choose_backend
from swarm.runtime.additions import WorkerPart


class HarnessesOfWorker(WorkerPart):
    """The harnesses that a worker can run."""

    def offers(self) -> Mapping[str, str]:
        found = find_programs(self.settings.harnesses)
        if not found or getattr(choose_backend(self.settings.sandbox), "name", "") != "bubblewrap":
            return {}
        return {offer("harness", name): program.version for name, program in found.items()}
