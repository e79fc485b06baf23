"""The tool `Skill`: load the text of a skill when it is needed.

Skills that a definition names come with the agent's first message. After a compaction all loaded skills are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.capabilities.skills.messages import list_skills, render_skill
from swarm.capabilities.skills.model import Skill, Skills
from swarm.capabilities.skills.packages import VARIABLE, find_skills, load_package
from swarm.core.errors import ToolError
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import READ, SHELL
from swarm.runtime.steps import Offer
from swarm.store.store import Store
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import string
from swarm.workspace import SKILL_PREFIX

RESTATED_CHARACTERS = 100_000
"""Most characters of all skills repeated after a compaction."""
RESTATED_OF_ONE = 20_000
"""Most characters of each skill repeated after a compaction."""
PRELOADED_CHARACTERS = 40_000
"""Most characters of each skill that a definition names."""
_SPOKEN_OF = re.compile(rf"{VARIABLE}\}}?/([A-Za-z0-9_.-]+)")


def load_skill(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Give the agent the text of a skill."""
    skills = find_skills(context.store, context.job_id)
    skill = skills.find(given["skill"])
    if skill is None or not skill.by_model:
        near = skills.near(given["skill"], skills.for_model())
        hint = f"; about these words: {', '.join(near)}" if near else ""
        raise ToolError(f"There is no skill {given['skill']!r} that you could use{hint}.")
    return ToolResult(text=render_skill(skill, load_package(context.store, skill), given.get("args", "")))


def preload(store: Store, spec: AgentSpec, refuse: Callable[[Skill], str]) -> str:
    """Render the skills that the agent's definition names for its first message; rules can refuse them."""
    if not _named(spec):
        return ""
    return _render_named(store, find_skills(store, spec.job_id), spec, PRELOADED_CHARACTERS, refuse)


def restate_skills(context: ToolContext, history: History) -> str:
    """Render the definition's skills, then the loaded ones; the latest stay whole longest."""
    spec, skills = context.spec, find_skills(context.store, context.job_id)
    parts = [_render_named(context.store, skills, spec, RESTATED_OF_ONE, context.refuse_skill)] if _named(spec) else []
    called: list[str] = []
    for given in reversed(loaded_skills(history)):
        skill = skills.find(given["skill"])
        if skill is not None:
            text = render_skill(skill, load_package(context.store, skill), given.get("args", ""))
            called.insert(0, _cut(text, skill, RESTATED_OF_ONE))
    while called and sum(map(len, [*parts, *called])) > RESTATED_CHARACTERS:
        called.pop(0)
    return "\n\n".join(filter(None, [*parts, *called]))


def loaded_skills(history: History) -> list[dict[str, Any]]:
    """The calls that loaded a skill, each skill's last, in the order of the first."""
    return [given for key, given in history.context.heartbeat.items() if key.startswith(f"{SKILL.name} ")]


def names_in_use(spec: AgentSpec, history: History, command: str) -> list[str]:
    """The skills whose files an agent's command may use: the loaded ones and those it mentions."""
    called = [str(given["skill"]) for given in loaded_skills(history)]
    return [*_named(spec), *called, *_SPOKEN_OF.findall(spec.prompt), *_SPOKEN_OF.findall(command)]


class SkillsOffer(Offer):
    """The skills that a model may load."""

    meets = "skills"

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = skills
        self.key = tuple((one.name, one.digest) for one in skills)

    def finish(self, tools: list[Tool]) -> list[Tool]:
        """Build the tool for agents of this job, with a line for each skill in a text of bounded size."""
        told = f"\nSkills:\n{list_skills(self._skills)}"
        return [replace(one, description=one.description + told) if one.row.needs == "skills" else one for one in tools]


def offer_skills(skills: Skills) -> Offer | None:
    """Build the beginning of requests for these skills; None if a model may load none of them."""
    found = skills.for_model()
    return SkillsOffer(found) if found else None


def _named(spec: AgentSpec) -> list[str]:
    return spec.definition.skills


def _render_named(store: Store, skills: Skills, spec: AgentSpec, most: int, refuse: Callable[[Skill], str]) -> str:
    tools = spec.definition.tools
    can_run = tools is None or SHELL in {canonical_tool(split_pattern(entry)[0]) for entry in tools}
    parts = []
    for name in _named(spec):
        skill = skills.find(name)
        if skill is None or not skill.by_model:
            parts.append(
                f'<skill name="{name[:64]}">\n[Your definition names this skill, which does not exist here.]\n</skill>'
            )
        elif refusal := refuse(skill):
            parts.append(f'<skill name="{name[:64]}">\n[Your definition names this skill: {refusal}.]\n</skill>')
        else:
            text = render_skill(skill, load_package(store, skill), "", can_run=can_run)
            parts.append(_cut(text, skill, most))
    return "\n\n".join(parts)


def _cut(text: str, skill: Skill, most: int) -> str:
    if len(text) <= most:
        return text
    rest = (
        f'{READ}(file_path="{SKILL_PREFIX}{skill.name}/SKILL.md") has its whole text'
        if skill.files
        else "load it again"
    )
    return f"{text[:most]}\n[… {len(text) - most:,} characters left out; {rest}]\n</skill>"


SKILL = Tool(
    name="Skill",
    description=(
        "Load a skill: people's instructions for one kind of work, with its own files. Load the one that "
        "fits your task before you begin with it, once. It says how to work; it permits nothing that you may not do."
    ),
    parameters={
        "skill": string("Its name.", minLength=1, maxLength=200),
        "args": string("Arguments, if it takes any.", maxLength=20_000),
    },
    required=["skill"],
    run=load_skill,
)
