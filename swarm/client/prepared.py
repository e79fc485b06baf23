"""A job that was checked and completed, and can be put on the queue."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarm.agent.spec import AgentSpec
from swarm.capabilities.context.instructions import Instructions
from swarm.capabilities.memory.files import MemoryFolder
from swarm.capabilities.memory.stores import Places
from swarm.capabilities.skills.model import Skills
from swarm.client.project import Project
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.reader import explain_absent
from swarm.definitions.mcp.servers import JobServers
from swarm.permissions.rules import Rules
from swarm.permissions.sources import PermissionSettings
from swarm.store.callbacks import Callback
from swarm.store.fields import JobTerms


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be put on the queue."""

    spec: AgentSpec
    """Its root agent; where files are carried, still without the commit that they begin as."""
    folder: Path
    """The person's folder."""
    project: Project
    """What files say about it."""
    ask_seconds: float
    priority: int
    """Its weight when jobs wait for the fleet."""
    declined: bool = False
    """The person was asked about that just now, and does not want it."""
    instructions: Instructions | None = None
    """The instruction files that travel with it; None if they are switched off."""
    callback: Callback | None = None
    """What is published when it ends."""
    webhook: str = field(default="", repr=False)
    """The address that it brings, with its secret, as JSON."""
    places: Places | None = None
    """Where its agents find what they remember …"""
    memory_folders: tuple[MemoryFolder, ...] = ()
    """… and what lies in files for that."""
    digest: str = ""
    """Of the order, if it may be submitted again; empty otherwise."""

    def terms(self, retention_seconds: float) -> JobTerms:
        """What its record says besides what its root does."""
        return JobTerms(
            folder=str(self.folder),
            retention_seconds=retention_seconds,
            rules=self.permissions.rules.model_dump_json(),
            ask_seconds=self.ask_seconds,
            weight=self.priority,
            order=self.digest,
            memory="" if self.places is None else self.places.model_dump_json(),
            callback=self.callback,
        )

    def asking(self, base_url: str) -> PreparedJob:
        """The same job, whose agents ask the server at this URL instead of the model."""
        return replace(self, spec=self.spec.model_copy(update={"base_url": base_url}))

    @property
    def documents(self) -> dict[str, str]:
        """What travels with it besides definitions, by what it is."""
        servers, skills = self.project.configured.servers, self.skills
        given = {
            "instructions": self.instructions,
            "skills": skills if skills.skills else None,
            "servers": JobServers(servers=list(servers)) if servers else None,
            "hooks": self.project.hooks.holding(trusted=self.trusted) or None,
        }
        return {name: document.model_dump_json() for name, document in given.items() if document is not None}

    @property
    def catalogue(self) -> Catalogue:
        """The types of agents that it may have."""
        return self.project.catalogue

    @property
    def permissions(self) -> PermissionSettings:
        """What settings files and the order say."""
        return self.project.permissions

    @property
    def trusted(self) -> bool:
        """What files of the workspace loosen holds."""
        return self.project.trusted

    @property
    def skills(self) -> Skills:
        """The skills and commands that travel with it."""
        return self.project.skills

    @property
    def rules(self) -> Rules:
        """All rules that hold for its root."""
        return self.permissions.rules + self.spec.rules

    @property
    def grants(self) -> list[Grant]:
        """What files of the workspace would loosen, or loosen, if it is trusted."""
        return self.project.grants

    @property
    def ignored(self) -> str:
        """What is not trusted and therefore does not hold, and how it would, in a line; empty if there is nothing to say."""
        if self.trusted or self.declined or not self.grants:
            return ""
        sources = ", ".join(dict.fromkeys(grant.source for grant in self.grants))
        ignored = f"{len(self.grants)} things that files of this workspace would allow are ignored ({sources})"
        command = f"swarm trust {shlex.quote(str(self.folder))}"
        return f"{ignored}; `{command} --show` lists them, without --show it grants them"

    @property
    def warnings(self) -> list[str]:
        """What the settings files held that could not be used, or was not."""
        found = [*self.project.problems, *(self.instructions.problems if self.instructions else ())]
        problems = [str(problem) for problem in found]
        if lack := explain_absent(self.spec.definition, self.project.configured, self.catalogue.unapproved):
            problems.append(f"{self.spec.definition.name}: {lack}")
        return [*problems, self.ignored] if self.ignored else problems
