"""Configuration of a job from files of the workspace and its person, read once.

Grants of workspace files are included only while the person trusts exactly those.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swarm.capabilities.context.instructions import Instructions, load_instructions
from swarm.client.preferred import apply_preferences, drop_unusable, limit_calls
from swarm.core.capabilities import capabilities, load
from swarm.core.errors import ConfigurationError
from swarm.core.memo import Memo
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue, load_catalogue
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.lacks import has_extra
from swarm.definitions.mcp.reader import Configured, load_servers
from swarm.definitions.mcp.servers import JobServers
from swarm.definitions.memory_stores import Places, find_places
from swarm.definitions.setups import Setup, read_setup
from swarm.definitions.sources import Problem
from swarm.models.catalogue import load_models
from swarm.permissions.definition_rules import server_rules
from swarm.permissions.preferences import Preferences, load_preferences
from swarm.permissions.sources import PermissionSettings, load_permission_settings
from swarm.permissions.trust import TrustStore
from swarm.runtime.additions import OrderPart, OrderPlace

_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "LOGNAME", "USER", "LNAME", "USERNAME")
"""The variables of the environment that readers of files look at."""


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
    configured: Configured
    """The MCP servers that are configured."""
    can_serve: bool
    """Whether the workers that run the job may be able to run MCP servers; False if they are this machine's, and it is not."""
    places: Places
    """Places of agents' memory."""
    parts: Mapping[str, OrderPart]
    """Additions of capabilities, by their names."""
    preferences: Preferences
    """Choices of settings files."""

    def part(self, name: str) -> Any:
        """The additions of a capability that the order needs. Raises `ConfigurationError` if it does not exist."""
        if name not in self.parts:
            raise ConfigurationError(f"the order needs {name}, which this installation of the swarm does not have")
        return self.parts[name]

    @property
    def grants(self) -> list[Grant]:
        """Grants of the workspace's files; they apply only if it is trusted."""
        return [
            *self.permissions.grants,
            *self.preferences.grants,
            *self.catalogue.grants,
            *self.instructions.grants,
            *([self.setup.grant] if self.setup else []),
            *self.configured.grants,
            *(grant for part in self.parts.values() for grant in part.grants),
        ]

    @cached_property
    def catalogue_text(self) -> str:
        """The definitions as JSON, as they travel with a job."""
        return self.catalogue.model_dump_json()

    @cached_property
    def documents(self) -> dict[str, str]:
        """The documents that travel with a job besides definitions, by name, as JSON."""
        servers = self.configured.servers if self.can_serve else ()
        given = {
            "instructions": self.instructions,
            "servers": JobServers(servers=list(servers)) if servers else None,
            **{name: part.document() for name, part in self.parts.items()},
        }
        return {name: document.model_dump_json() for name, document in given.items() if document is not None}

    @property
    def problems(self) -> list[Problem]:
        """Unusable entries, each once, except those of definitions and instruction files, which are reported elsewhere."""
        found = [
            *self.permissions.problems,
            *self.preferences.problems,
            *self.setup_problems,
            *self.configured.problems,
            *(problem for part in self.parts.values() for problem in part.problems),
        ]
        # Of a file that several readers cannot read, the problem that guards.
        return list({str(one): one for one in sorted(found, key=lambda one: one.guards)}.values())


_projects = Memo[Project](32)


def gather(
    folder: Path,
    settings: Settings,
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
    home: Path | None = None,
) -> Project:
    """Return a workspace's configuration, which is read again only if one of its files, or of its person's, has changed.

    The three lists are rules of the command line. `home` replaces the person's. Raises `InvalidRule` for one of those rules.
    """
    given, home = (tuple(allow), tuple(ask), tuple(deny)), home or Path.home()
    key = (folder, given, settings, home, tuple(map(os.environ.get, _VARIABLES)))
    return _projects.get(key, lambda: _gather(folder, settings, home, *given))


def _gather(
    folder: Path, settings: Settings, home: Path, allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]
) -> Project:
    places = find_places(folder, settings.memory_owner)

    def read(trusted: bool) -> Project:
        # Read it even if this job does not need it: trust does not depend on how a job is started.
        setup, problems = (None, []) if settings.hub is None else read_setup(folder)
        configured = load_servers(folder, home, trusted=trusted)
        permissions = load_permission_settings(folder, home, allow=allow, ask=ask, deny=deny, trusted=trusted)
        preferences = load_preferences(folder, home, trusted=trusted)
        models = load_models(settings.prices_file)
        catalogue = apply_preferences(load_catalogue(folder, home, trusted=trusted), preferences, models)
        place = OrderPlace(folder, home, settings, catalogue, trusted, places)
        parts = {name: load(one.order)(place) for name, one in capabilities().items() if one.order}
        rules = permissions.rules + server_rules(configured.servers) + limit_calls(preferences, models)
        for part in parts.values():
            rules += part.rules
        return Project(
            trusted=trusted,
            catalogue=catalogue,
            permissions=replace(permissions, rules=rules),
            instructions=load_instructions(folder, home, trusted=trusted),
            setup=setup,
            setup_problems=tuple(problems),
            configured=configured,
            can_serve=settings.redis_url is not None or has_extra(),
            parts=parts,
            places=places,
            preferences=drop_unusable(preferences, catalogue),
        )

    found = read(trusted=False)
    trusted = found.grants and TrustStore(settings.state_folder()).is_trusted(folder, found.grants)
    counting = read(trusted=True) if trusted else found
    # Another process may write there now: only the trusted state is pinned.
    same = all(part.grants == found.parts[name].grants for name, part in counting.parts.items())
    return counting if same else found


def is_trusted(folder: Path, settings: Settings) -> bool:
    """Whether the person trusts the current grants of the workspace's files."""
    return gather(folder, settings).trusted
