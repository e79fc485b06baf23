"""An agent's context besides its task: instruction files, and the message after a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.runtime.segment import Segment


def _has_guidance(segment: Segment) -> bool:
    return segment.spec.definition.instruction_files and "instructions" in segment.claim.documents


CAPABILITY = Capability(
    steps=(
        StepRow("instructions", "swarm.capabilities.context.guidance:Guidance", _has_guidance),
        StepRow("compaction", "swarm.capabilities.context.compaction:CompactionStep", lambda segment: True),
    ),
)
