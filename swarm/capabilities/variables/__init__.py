"""Variables that settings files give to commands; they travel with the job. Secrets are left out where the files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.runtime.segment import Segment


def _wanted(segment: Segment) -> bool:
    return "variables" in segment.claim.documents


CAPABILITY = Capability(
    steps=(StepRow("variables", "swarm.capabilities.variables.step:VariablesStep", _wanted),),
    order="swarm.capabilities.variables.step:VariablesOfOrder",
)
