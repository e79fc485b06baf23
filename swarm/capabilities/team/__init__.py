"""Shared state of a job's agents: the team, its task board, the scratchpad, each with its tools and Lua."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import Kind, ToolRow

    # fmt: off
    return (
        ToolRow("TeamCreate", Kind.SHARED, "swarm.capabilities.team.team_tools:TEAM_CREATE", "name", root_only=True, shipped_only=True,
                in_background=False, adds_agents=True, needs="lead"),
        ToolRow("TeamDelete", Kind.AGENTS, "swarm.capabilities.team.team_tools:TEAM_DELETE", root_only=True, shipped_only=True,
                in_background=False, needs="lead"),
        ToolRow("BoardAdd", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_ADD", "subject", of_teammates=True, needs="lead",
                aliases="taskcreate createtask"),
        ToolRow("BoardList", Kind.LOOK, "swarm.capabilities.team.board_tools:BOARD_LIST", "task_id", internal=True, of_teammates=True,
                needs="lead",
                aliases="tasklist taskget listtasks gettask"),
        ToolRow("BoardClaim", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_CLAIM", "task_id", of_teammates=True, needs="lead",
                aliases="claimtask"),
        ToolRow("BoardUpdate", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_UPDATE", "task_id", of_teammates=True, needs="lead",
                aliases="taskupdate"),
        ToolRow("BoardComplete", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_COMPLETE", "task_id", of_teammates=True,
                needs="lead", aliases="completetask"),
        ToolRow("BoardWait", Kind.WAIT, "swarm.capabilities.team.board_tools:BOARD_WAIT", of_teammates=True, needs="lead",
                activity="waiting for tasks"),
        ToolRow("ScratchpadWrite", Kind.SHARED, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_WRITE", "page", of_teammates=True,
                concludes=True,
                needs="several"),
        ToolRow("ScratchpadRead", Kind.LOOK, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_READ", "page", internal=True,
                of_teammates=True, needs="several"),
        ToolRow("ScratchpadAppend", Kind.SHARED, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_APPEND", "page", of_teammates=True,
                concludes=True,
                needs="several"),
        ToolRow("ScratchpadList", Kind.LOOK, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_LIST", internal=True, of_teammates=True,
                needs="several"),
    )
    # fmt: on


CAPABILITY = Capability(
    steps=(StepRow("team", "swarm.capabilities.team.step:TeamStep", ("spec.limits.max_depth",)),),
    tools=_tools,
    reads="swarm.client.boards",
    commands={"Jobs": {"board": "team:show_board", "pad": "team:show_pad"}},
    panels="swarm.web.panels.team:PANELS",
)
