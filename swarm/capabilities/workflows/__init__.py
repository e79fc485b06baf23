"""Workflows: agents whose next action comes from a program, with the same journal, children, limits and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import Kind, ToolRow

    # fmt: off
    return (
        ToolRow("Workflow", Kind.SPAWN, "swarm.capabilities.workflows.workflow_tool:WORKFLOW", "name", "name", adds_agents=True,
                needs="listed"),
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
