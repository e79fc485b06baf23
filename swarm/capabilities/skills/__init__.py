"""Skills and commands in people's files, read at submission; they travel with the job.

An agent begins with one line about each. It gets a skill's text when it loads it, and its files one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import Kind, ToolRow

    # fmt: off
    return (
        ToolRow("Skill", Kind.LOOK, "swarm.capabilities.skills.skill_tool:SKILL", "skill", "name", needs="skills", heartbeat="each"),
    )
    # fmt: on


CAPABILITY = Capability(
    steps=(StepRow("skills", "swarm.capabilities.skills.step:SkillsStep", ("spec.definition.skills",), "skills"),),
    tools=_tools,
    order="swarm.capabilities.skills.commands:SkillsOfOrder",
    brought="swarm.capabilities.skills.places:list_brought",
    commands={"Agents": {"skills": "skills:show_skills"}},
)
