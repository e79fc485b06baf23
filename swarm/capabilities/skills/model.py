"""Data of a skill: an entry of the index that travels with a job, and the package of its text and files.

Each package and the index are documents by hash. So every agent of a job has the same skills on any host, even if the files change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.formats import Formatted
from swarm.definitions.carried_files import CarriedFile
from swarm.definitions.grants import Grant
from swarm.definitions.sources import Problem
from swarm.definitions.tools import ToolRow

SKILL_FILE = "SKILL.md"
MAX_DESCRIPTION = 1_536
"""Most characters of a skill's description in the list."""


class Package(Formatted):
    """The text of a skill and the files beside it."""

    model_config = ConfigDict(frozen=True)

    name: str
    body: str
    files: dict[str, CarriedFile] = {}
    """Files by path below the skill's folder."""
    left_out: list[str] = []
    """Omitted files, each with the reason."""


class Skill(BaseModel):
    """A skill or command without its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    folder: str = ""
    """The folder's name, if it differs."""
    description: str = ""
    """The skill's purpose and use, from which an agent chooses."""
    kind: Literal["skill", "command"] = "skill"
    source: str
    """The file it was read from, as people can find it."""
    digest: str = ""
    """SHA-256 of its package."""
    size: int = 0
    """Size of its text in bytes."""
    files: int = 0
    hint: str = ""
    """Description of its arguments for people."""
    arguments: list[str] = []
    """Names of its arguments, in order."""
    by_model: bool = True
    """Whether an agent may load it."""
    by_person: bool = True
    """Whether a person may call it."""
    agent: str = ""
    """The type of agent that carries it out."""
    apart: bool = False
    """Whether it is meant for an agent of its own."""
    model: str = ""
    """The model with which a command's job begins."""
    notes: list[str] = []
    """Parts of its file without effect here, in words."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that rules may call it by: its own, also without its plugin, its folder's, and its file's path."""
        last = self.name.rpartition(":")[2]
        return tuple(
            dict.fromkeys(filter(None, (self.name, self.folder, self.source.removesuffix(f"/{SKILL_FILE}"), last)))
        )


class Skills(Formatted):
    """All skills of a workspace: the document that travels with a job."""

    model_config = ConfigDict(frozen=True)

    skills: list[Skill] = []
    packages: dict[str, str] = Field(default={}, exclude=True)
    """The packages as JSON, by digest."""
    problems: list[Problem] = Field(default=[], exclude=True)
    hidden: list[tuple[str, str]] = Field(default=[], exclude=True)
    """Hidden sources, each with the source of the same name that hides it."""
    grants: list[Grant] = Field(default=[], exclude=True)
    """Workspace skills that would replace the person's own; they count only if trusted."""

    def find(self, name: str) -> Skill | None:
        """Find a skill by its name or its folder's; a command in folders also by its last part, if that is unique."""
        plain = name.strip().lstrip("/").casefold()
        for spelt in ([one.name for one in self.skills], [one.folder for one in self.skills]):
            found = next((one for one, each in zip(self.skills, spelt, strict=True) if each.casefold() == plain), None)
            if plain and found is not None:
                return found
        last = [one for one in self.skills if one.name.casefold().rpartition(":")[2] == plain]
        return last[0] if len(last) == 1 else None

    def names_of(self, row: ToolRow, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Every name of the skill that a call is about; none for a call about something else."""
        asked = given.get(row.subject) if row.needs == "skills" else None
        found = self.find(asked) if isinstance(asked, str) else None
        return () if found is None else found.names

    def near(self, name: str, among: Iterable[Skill] | None = None) -> list[str]:
        """Names similar to this one, and those of skills whose descriptions contain all of its words."""
        offered = list(self.skills if among is None else among)
        words = name.casefold().replace("-", " ").split()
        about = [
            one.name for one in offered if all(word in f"{one.name} {one.description}".casefold() for word in words)
        ]
        like = get_close_matches(name.casefold().lstrip("/"), [one.name for one in offered], n=3)
        return list(dict.fromkeys([*like, *about]))[:10]

    def for_model(self) -> list[Skill]:
        """The skills that agents may load, by name."""
        return sorted((one for one in self.skills if one.by_model), key=lambda one: one.name)
