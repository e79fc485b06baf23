"""A capability: jobs that work on a repository of another server, and push a branch with a pull request."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(
        StepRow("repositories", "swarm.capabilities.repositories.step:RepositoryStep", ("spec.begins_repository",)),
    ),
    worker="swarm.capabilities.repositories.worker:ForgesOfWorker",
)
