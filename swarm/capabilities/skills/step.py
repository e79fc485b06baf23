"""A running agent's skills: the tool, those of its definition before the task, and their files for its commands."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.capabilities.skills.model import Skills
from swarm.capabilities.skills.packages import VARIABLE, load_skills, read_file, unpack
from swarm.capabilities.skills.skill_tool import names_in_use, offer_skills, preload
from swarm.definitions.tools import ToolRow
from swarm.runtime.steps import Offer, Step
from swarm.tools import ToolContext


class SkillsStep(Step):
    """The skills of one running agent."""

    @cached_property
    def _skills(self) -> Skills:
        """Load the job's skills. Raises `UnreadableRecord`."""
        return load_skills(self.segment.store, self.segment.claim.documents.get("skills", ""))

    def offer(self, spec: AgentSpec) -> Offer | None:
        return offer_skills(self._skills)

    def first_words(self) -> str:
        return preload(self.segment.store, self.segment.spec)

    def equip(self, context: ToolContext) -> None:
        context.skill_file = lambda path: read_file(context, path)

    def before_run(self, context: ToolContext, row: ToolRow, given: dict[str, Any]) -> None:
        """Put the files of skills in use where a command finds them."""
        if row.matching != "command":
            return
        names = names_in_use(self.segment.spec, self.segment.history, str(given.get(row.subject, "")))
        folder = unpack(context, self._skills, names) if names else None
        if folder is not None:
            context.environment[VARIABLE] = str(folder)
            context.readable = (*context.readable, folder)
