"""Workflows: agents whose next action comes from a program, with the same journal, children, limits and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import MAP_ROWS, READ_ROWS, Kind, ToolRow

    # fmt: off
    return (
        ToolRow("Workflow", Kind.SPAWN, "swarm.capabilities.workflows.workflow_tool:WORKFLOW", "name", "name", adds_agents=True,
                needs="listed"),
        ToolRow(READ_ROWS, Kind.LOOK, "swarm.capabilities.workflows.rows_tools:READ_ROWS", "file_path", "read", needs="flow"),
        ToolRow(MAP_ROWS, Kind.SPAWN, "swarm.capabilities.workflows.rows_tools:MAP_ROWS", needs="flow", adds_agents=True,
                activity="MapRows {description}"),
    )
    # fmt: on


CAPABILITY = Capability(
    steps=(StepRow("workflow", "swarm.capabilities.workflows.step:WorkflowStep", ("spec.definition.workflow",)),),
    tools=_tools,
    worker="swarm.capabilities.workflows.worker:WorkflowsOfWorker",
    reads="swarm.client.workflow_calls",
    panels="swarm.web.panels.workflows:PANELS",
    commands={"Agents": {"workflows": "workflows:workflows"}},
)
