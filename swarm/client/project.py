"""Configuration of a job from files of the workspace and its person, read once.

Grants of workspace files are included only while the person trusts exactly those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarm.capabilities.context.instructions import Instructions, load_instructions
from swarm.capabilities.hooks.files import FoundHooks, find_hooks
from swarm.capabilities.skills.model import Skills
from swarm.capabilities.skills.places import load_skills
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue, load_catalogue
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.reader import Configured, load_servers
from swarm.definitions.setups import Setup, read_setup
from swarm.definitions.sources import Problem
from swarm.permissions.definition_rules import server_rules
from swarm.permissions.sources import PermissionSettings, load_permission_settings
from swarm.permissions.trust import TrustStore


@dataclass(frozen=True)
class Project:
    """The configuration that was read."""

    trusted: bool
    """Whether the files of the workspace are trusted to loosen permissions."""
    catalogue: Catalogue
    permissions: PermissionSettings
    instructions: Instructions
    setup: Setup | None
    """The setup of a new checkout."""
    setup_problems: tuple[Problem, ...]
    """The reasons why the setup could not be read."""
    skills: Skills
    """Skills and commands."""
    configured: Configured
    """The MCP servers available to agents."""
    hooks: FoundHooks
    """Hooks from files."""

    @property
    def grants(self) -> list[Grant]:
        """Grants of the workspace's files; they apply only if it is trusted."""
        return [
            *self.permissions.grants,
            *self.catalogue.grants,
            *self.instructions.grants,
            *([self.setup.grant] if self.setup else []),
            *self.skills.grants,
            *self.configured.grants,
            *self.hooks.grants,
        ]

    @property
    def problems(self) -> list[Problem]:
        """Unusable entries, except those of definitions and instruction files, which are reported elsewhere."""
        others = (self.skills, self.configured, self.hooks)
        return [
            *self.permissions.problems,
            *self.setup_problems,
            *(problem for one in others for problem in one.problems),
        ]


def gather(
    folder: Path, settings: Settings, *, allow: Sequence[str] = (), ask: Sequence[str] = (), deny: Sequence[str] = ()
) -> Project:
    """Read a workspace's configuration; the three lists are rules of the command line. Raises `InvalidRule` for one of those."""

    def read(trusted: bool) -> Project:
        home = Path.home()
        # Read it even if this job does not need it: trust does not depend on how a job is started.
        setup, problems = (None, []) if settings.hub is None else read_setup(folder)
        configured = load_servers(folder, home, trusted=trusted)
        permissions = load_permission_settings(folder, home, allow=allow, ask=ask, deny=deny, trusted=trusted)
        catalogue = load_catalogue(folder, trusted=trusted)
        hooks = find_hooks(folder, home, (hook for one in catalogue.definitions.values() for hook in one.hooks))
        rules = permissions.rules + server_rules(configured.servers) + hooks.rules
        return Project(
            trusted=trusted,
            catalogue=catalogue,
            permissions=replace(permissions, rules=rules),
            instructions=load_instructions(folder, home, trusted=trusted),
            setup=setup,
            setup_problems=tuple(problems),
            skills=load_skills(folder, trusted=trusted),
            configured=configured,
            hooks=hooks,
        )

    found = read(trusted=False)
    trusted = found.grants and TrustStore(settings.state_folder()).is_trusted(folder, found.grants)
    counting = read(trusted=True) if trusted else found
    # Another process may write there now: only the trusted state is pinned.
    return counting if counting.hooks.grants == found.hooks.grants else found


def is_trusted(folder: Path, settings: Settings) -> bool:
    """Whether the person trusts the current grants of the workspace's files."""
    return gather(folder, settings).trusted
