"""Add an agent's memory to its first message."""

from __future__ import annotations

from swarm.capabilities.memory.mounts import tell_memory
from swarm.runtime.steps import Step


class MemoryStep(Step):
    """The memory of one running agent."""

    def first_words(self) -> str:
        segment = self.segment
        return tell_memory(segment.store, segment.spec, now=segment.claim.now())
