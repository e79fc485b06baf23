"""A capability: lines about agents and a digest of their job, written for people by a small model beside the work."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("summaries", "swarm.capabilities.summaries.step:SummaryStep", ("spec.is_summarized",)),),
)
