"""A capability: judge an agent's work before its end, by a command that checks it and by a grader."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("outcome", "swarm.capabilities.outcomes.step:OutcomeStep", ("spec.definition.outcome",)),),
)
