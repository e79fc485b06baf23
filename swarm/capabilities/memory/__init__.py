"""Agents' memory across jobs: memory stores of pages, and the tool that reads and writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import Kind, ToolRow

    # fmt: off
    return (
        ToolRow("Memory", Kind.SHARED, "swarm.capabilities.memory.memory_tool:MEMORY", "path", needs="memory"),
    )
    # fmt: on


CAPABILITY = Capability(
    steps=(StepRow("memory", "swarm.capabilities.memory.step:MemoryStep", ("spec.definition.memory",)),),
    tools=_tools,
    order="swarm.capabilities.memory.files:MemoryOfOrder",
    commands={"Agents": {"memory": "memory:memory"}},
    panels="swarm.web.panels.memory:PANELS",
)
