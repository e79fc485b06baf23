"""The programs that a worker can run: the native ones that it has, each in one version, and the languages of sandboxed ones."""

from __future__ import annotations

from collections.abc import Mapping

from swarm.agent.needs import known_as, offer
from swarm.definitions.own.workflow import declared_workflows
from swarm.runtime.additions import WorkerPart
from swarm.workflows.front_ends import usable_languages
from swarm.workflows.rows import PART


class WorkflowsOfWorker(WorkerPart):
    """Offers programs."""

    def offers(self) -> Mapping[str, str]:
        """Name each native workflow with its source's hash, because only the same source repeats a journal."""
        names = [*map(known_as, (PART, *declared_workflows())), *usable_languages()]
        return {offer("workflow", name): "" for name in names}
