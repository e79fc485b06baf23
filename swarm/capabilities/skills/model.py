"""What a skill is as data: a line of the index that travels with a job, and the package that holds its text and files.

Each package is a document by its hash, and so is the index that names the packages: what a job began with is what each of its agents
has, on any host, whatever becomes of the files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.definitions.grants import Grant
from swarm.definitions.sources import Problem

MAX_DESCRIPTION = 1_536
"""Characters that are told of one skill to begin with."""


class SkillFile(BaseModel):
    """One file of a skill."""

    model_config = ConfigDict(frozen=True)

    data: str
    """Its bytes, in base64."""
    executable: bool = False

    def content(self) -> bytes:
        """The bytes; none for a record that is damaged."""
        try:
            return base64.b64decode(self.data)
        except (binascii.Error, ValueError):
            return b""


class Package(BaseModel):
    """The text of a skill and the files beside it."""

    model_config = ConfigDict(frozen=True)

    v: Literal[1] = 1
    name: str
    body: str
    files: dict[str, SkillFile] = {}
    """By path below the skill's folder."""
    left_out: list[str] = []
    """Files that are not here, each with the reason."""


class Skill(BaseModel):
    """What is known of a skill, or of a command, without its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str = ""
    """What it is for and when: what an agent chooses by."""
    kind: Literal["skill", "command"] = "skill"
    source: str
    """The file it was read from, as people find it."""
    digest: str = ""
    """SHA-256 of its package."""
    size: int = 0
    """Bytes of its text."""
    files: int = 0
    hint: str = ""
    """What arguments it wants, for people."""
    arguments: list[str] = []
    """Their names, in order."""
    by_model: bool = True
    """An agent may call for it …"""
    by_person: bool = True
    """… and so may a person."""
    agent: str = ""
    """The type of agent that is to carry it out."""
    apart: bool = False
    """It is meant for an agent of its own."""
    model: str = ""
    """The model that a command's job is to begin with."""
    notes: list[str] = []
    """What of its file has no effect here, in words."""


class Skills(BaseModel):
    """All that apply in a workspace: the document that travels with a job."""

    model_config = ConfigDict(frozen=True)

    v: Literal[1] = 1
    skills: list[Skill] = []
    packages: dict[str, str] = Field(default={}, exclude=True)
    """The packages as JSON, by digest."""
    problems: list[Problem] = Field(default=[], exclude=True)
    hidden: list[tuple[str, str]] = Field(default=[], exclude=True)
    """Sources that others of the same name hide, each with the one that does."""
    grants: list[Grant] = Field(default=[], exclude=True)
    """Skills of the workspace that would take the place of the person's own; they are among the others only if that is trusted."""

    def find(self, name: str) -> Skill | None:
        """The one of that name; of a command in folders, also by its last part where only one has it."""
        plain = name.strip().lstrip("/").casefold()
        for one in self.skills:
            if one.name.casefold() == plain:
                return one
        last = [one for one in self.skills if one.name.casefold().rpartition(":")[2] == plain]
        return last[0] if len(last) == 1 else None

    def near(self, name: str, among: Iterable[Skill] | None = None) -> list[str]:
        """Names like this one, and those of skills that are said to be about all of its words."""
        offered = list(self.skills if among is None else among)
        words = name.casefold().replace("-", " ").split()
        about = [
            one.name for one in offered if all(word in f"{one.name} {one.description}".casefold() for word in words)
        ]
        like = get_close_matches(name.casefold().lstrip("/"), [one.name for one in offered], n=3)
        return list(dict.fromkeys([*like, *about]))[:10]

    def for_model(self) -> list[Skill]:
        """Those that agents are told of, by name."""
        return sorted((one for one in self.skills if one.by_model), key=lambda one: one.name)
