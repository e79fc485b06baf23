"""A checked and completed job, ready for the queue."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarm.agent.spec import AgentSpec
from swarm.capabilities.context.instructions import Instructions
from swarm.client.project import Project
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.lacks import NO_EXTRA
from swarm.definitions.mcp.reader import explain_absent, needed_servers
from swarm.definitions.mcp.servers import Server
from swarm.definitions.sources import enumerate_briefly
from swarm.permissions.rules import Rules
from swarm.permissions.sources import PermissionSettings
from swarm.store.callbacks import Callback
from swarm.store.fields import JobTerms


@dataclass(frozen=True)
class PreparedJob:
    """A job ready for the queue."""

    spec: AgentSpec
    """The root agent; if files are carried, still without their first commit."""
    folder: Path
    """The person's folder; of a job from a repository, the place of its copy."""
    project: Project
    """The job's configuration from files."""
    ask_seconds: float
    priority: int
    """The job's weight among jobs that wait for the fleet."""
    declined: bool = False
    """The person was asked just now whether to trust the files, and declined."""
    instructions: Instructions | None = None
    """The instruction files that travel with the job; None if they are switched off."""
    callback: Callback | None = None
    """The callback that is published when the job ends."""
    webhook: str = field(default="", repr=False)
    """The job's own webhook address with its secret, as JSON."""
    earlier: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further documents that travel with the job: the results of an earlier run."""
    digest: str = ""
    """Hash of the order, if it can be submitted again; else empty."""

    def terms(self, settings: Settings) -> JobTerms:
        """The fields of the job's record besides the root's."""
        return JobTerms(
            folder=str(self.folder) if self.spec.repository is None else self.spec.repository.shown,
            retention_seconds=settings.retention_seconds,
            retention_by_state=settings.retention_by_state,
            archive_seconds=settings.archive_seconds,
            rules=self.permissions.rules.model_dump_json(),
            ask_seconds=self.ask_seconds,
            weight=self.priority,
            order=self.digest,
            memory=self.project.places.model_dump_json(),
            callback=self.callback,
        )

    def asking(self, base_url: str) -> PreparedJob:
        """Copy the job, with agents that ask the server at this URL instead of the model."""
        return replace(self, spec=self.spec.model_copy(update={"base_url": base_url}))

    @property
    def documents(self) -> dict[str, str]:
        """The documents that travel with the job besides definitions, by name."""
        given = {**self.project.documents, **self.earlier}
        return (
            given if self.instructions is not None else {name: given[name] for name in given if name != "instructions"}
        )

    @property
    def catalogue(self) -> Catalogue:
        """The agent types that the job may use."""
        return self.project.catalogue

    @property
    def permissions(self) -> PermissionSettings:
        """Permissions from settings files and the order."""
        return self.project.permissions

    @property
    def trusted(self) -> bool:
        """Whether the files of the workspace are trusted to loosen permissions."""
        return self.project.trusted

    @property
    def packages(self) -> dict[str, str]:
        """Texts that travel with the job and are named by documents, by digest."""
        return {digest: text for part in self.project.parts.values() for digest, text in part.packages.items()}

    @property
    def rules(self) -> Rules:
        """All rules that apply to its root."""
        return self.permissions.rules + self.spec.rules

    @property
    def needed_servers(self) -> list[Server]:
        """The MCP servers without which the first agent does not start."""
        return needed_servers(self.spec.definition, self.project.configured.servers)

    @property
    def grants(self) -> list[Grant]:
        """Grants of the workspace's files; they apply only if it is trusted."""
        return self.project.grants

    @property
    def unguarded(self) -> list[Grant]:
        """Restrictions in files that do not hold here; a person can start jobs without exactly these."""
        return list_lost(self.project)

    @property
    def ignored(self) -> str:
        """One line on untrusted grants and how to trust them; empty if there are none."""
        if self.trusted or self.declined or not self.grants:
            return ""
        sources = ", ".join(dict.fromkeys(grant.source for grant in self.grants))
        ignored = f"{len(self.grants)} grants in files of this workspace are ignored ({sources})"
        command = f"swarm trust {shlex.quote(str(self.folder))}"
        return f"{ignored}; `{command} --show` lists them, without --show it grants them"

    @property
    def warnings(self) -> list[str]:
        """Entries of settings files that could not be used, or were not."""
        found = [*self.project.problems, *(self.instructions.problems if self.instructions else ())]
        problems = [str(problem) for problem in found]
        if not self.project.can_serve and (servers := self.project.configured.servers):
            names = enumerate_briefly([server.name for server in servers])
            problems.append(f"goes without the MCP servers of your configuration ({names}): {NO_EXTRA}")
        if lack := explain_absent(self.spec.definition, self.project.configured, self.catalogue.unapproved):
            problems.append(f"{self.spec.definition.name}: {lack}")
        return [*problems, self.ignored] if self.ignored else problems


def list_lost(project: Project) -> list[Grant]:
    """Return the restrictions in files that do not hold here, as grants to go without them."""
    lost = [problem for problem in project.problems if problem.guards]
    return [Grant(text=f"jobs without a restriction: {problem.message}", source=problem.path) for problem in lost]
