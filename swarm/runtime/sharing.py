"""What a job's agents share (board, scratchpad, team): its tools, and who gets them.

An agent that works for itself alone should not read about them in every request. So an agent whose definition lists its tools gets
those of them that are listed; of the others, teammates and a first agent that can start agents get the board, and everybody gets the
scratchpad in a job that can have several agents. A teammate gets board, scratchpad and messages whatever its definition lists.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from swarm.agent.spec import AgentSpec
from swarm.definitions.model import AgentDefinition
from swarm.team.board_tools import board_tools
from swarm.team.scratchpad_tools import pad_tools
from swarm.team.team_tools import team_tools
from swarm.tools import Tool

_OF_TEAMMATES = ("Board*", "Scratchpad*", "SendMessage")


def shared_tools() -> dict[str, Tool]:
    """All of them, by name."""
    return {**board_tools(), **pad_tools(), **team_tools()}


def with_team_tools(spec: AgentSpec) -> AgentDefinition:
    """The agent's definition; a teammate's lists, if it lists tools, also those that it needs as one."""
    definition = spec.definition
    if not spec.teammate or definition.tools is None:
        return definition
    return definition.model_copy(update={"tools": [*definition.tools, *_OF_TEAMMATES]})


def is_of_use(name: str, spec: AgentSpec) -> bool:
    """Whether this tool is of use to the agent. True for all that are not about what agents share."""
    several = spec.limits.max_depth > 0
    leads = spec.parent_id is None and several
    if name in ("TeamCreate", "TeamDelete"):
        return leads
    if spec.definition.tools is not None or spec.teammate:
        return True
    if fnmatchcase(name, "Board*"):
        return leads
    return several or not fnmatchcase(name, "Scratchpad*")
