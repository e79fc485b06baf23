"""Everything that files of a workspace and of its person say about a job, read once.

What files of the workspace loosen is in it only while the person trusts exactly that.
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
    """What was read."""

    trusted: bool
    """What files of the workspace loosen holds."""
    catalogue: Catalogue
    permissions: PermissionSettings
    instructions: Instructions
    setup: Setup | None
    """What a new checkout would be set up with …"""
    setup_problems: tuple[Problem, ...]
    """… and why that could not be read."""
    skills: Skills
    """Skills and commands."""
    configured: Configured
    """The MCP servers that agents may have."""
    hooks: FoundHooks
    """What files have run."""

    @property
    def grants(self) -> list[Grant]:
        """What files of the workspace would loosen, or loosen, if it is trusted."""
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
        """What could not be used; that of definitions and instruction files is told elsewhere."""
        others = (self.skills, self.configured, self.hooks)
        return [
            *self.permissions.problems,
            *self.setup_problems,
            *(problem for one in others for problem in one.problems),
        ]


def gather(
    folder: Path, settings: Settings, *, allow: Sequence[str] = (), ask: Sequence[str] = (), deny: Sequence[str] = ()
) -> Project:
    """Read what applies in a workspace; the three lists are rules of the command line. Raises `InvalidRule` for one of those."""

    def read(trusted: bool) -> Project:
        home = Path.home()
        # Read also where it is switched off, or not made: what is trusted does not depend on how a job is started.
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
    # Somebody may write there at this moment: what is pinned is what was trusted.
    return counting if counting.hooks.grants == found.hooks.grants else found


def is_trusted(folder: Path, settings: Settings) -> bool:
    """Whether the person trusts what files of the workspace would loosen, as they are now."""
    return gather(folder, settings).trusted
