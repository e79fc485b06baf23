"""Variables that settings files give to commands; they travel with the job. Secrets are left out where the files are read."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("variables", "swarm.capabilities.variables.step:VariablesStep", document="variables"),),
    order="swarm.capabilities.variables.step:VariablesOfOrder",
)
