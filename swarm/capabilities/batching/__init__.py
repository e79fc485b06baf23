"""A capability: send requests that are not urgent by the Message Batches API, many at once at half the price."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("batching", "swarm.capabilities.batching.step:BatchStep", ("spec.batch",)),),
    order="swarm.capabilities.batching.batches:BatchOfOrder",
    worker="swarm.capabilities.batching.sender:BatchesOfWorker",
)
