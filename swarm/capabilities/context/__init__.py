"""An agent's context besides its task: instruction files, and the message after a summary."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(
        StepRow("instructions", "swarm.capabilities.context.guidance:guidance_of", document="instructions"),
        StepRow("compaction", "swarm.capabilities.context.compaction:CompactionStep"),
    ),
)
