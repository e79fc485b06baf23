"""Harnesses: other coding agents, run in a box as leaves of the tree, with its rules, questions and money."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("harness", "swarm.capabilities.harnesses.step:HarnessStep", ("spec.definition.harness",)),),
    worker="swarm.capabilities.harnesses.worker:HarnessesOfWorker",
    check="harness_check:check_harnesses",
    commands={"Jobs": {"proxy": "proxy:proxy"}},
)
