"""A running agent's skills: the tool, those of its definition before the task, and their files for its commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.capabilities.skills.model import Skill, Skills
from swarm.capabilities.skills.packages import VARIABLE, load_skills, read_file, unpack
from swarm.capabilities.skills.skill_tool import SKILL, loaded_skills, names_in_use, offer_skills, preload
from swarm.definitions.tools import ToolRow
from swarm.runtime.approvals import judge_call
from swarm.runtime.steps import Offer, Step
from swarm.tools import ToolContext
from swarm.workspace import SKILL_PREFIX


class SkillsStep(Step):
    """The skills of one running agent."""

    @cached_property
    def _skills(self) -> Skills:
        """Load the job's skills. Raises `UnreadableRecord`."""
        return load_skills(self.segment.store, self.segment.claim.documents.get("skills", ""))

    def offer(self, spec: AgentSpec) -> Offer | None:
        return offer_skills(self._skills)

    def first_words(self) -> str:
        return preload(self.segment.store, self.segment.spec, self._refuse)

    def names_of(self, row: ToolRow, given: dict[str, Any]) -> Sequence[str]:
        return self._skills.names_of(row, given)

    def equip(self, context: ToolContext) -> None:
        context.carried_files[SKILL_PREFIX] = lambda path: read_file(context, path)
        context.refuse_skill = self._refuse

    def before_run(self, context: ToolContext, row: ToolRow, given: dict[str, Any]) -> None:
        """Put the files of skills in use where a command finds them."""
        if row.matching != "command":
            return
        names = names_in_use(self.segment.spec, self.segment.history, str(given.get(row.subject, "")))
        found = [skill for name in dict.fromkeys(names) if (skill := self._skills.find(name)) is not None]
        folder = unpack(context, [skill for skill in found if skill.files and not self._refuse(skill)])
        if folder is not None:
            context.environment[VARIABLE] = str(folder)
            context.readable = (*context.readable, folder)

    def _refuse(self, skill: Skill) -> str:
        """Explain why rules keep this skill from the agent, by whichever way it comes; empty if they do not."""
        if any(self._skills.find(given["skill"]) == skill for given in loaded_skills(self.segment.history)):
            return ""  # with an approval, where a rule asks
        verdict = judge_call(self.segment, SKILL.name, {"skill": skill.name}, names=skill.names)
        return "" if verdict.action == "allow" else verdict.reason
