"""Profiles of servers beside Anthropic's: known differences before a server told anything.

The shipped table is `profiles.yaml`. Learned facts replace a profile's. A server is recognised by its address, or named by a setting.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel

from swarm.core.errors import ConfigurationError
from swarm.core.settings import LOOPBACK, Settings
from swarm.models.facts import NO_FACTS, ModelFacts, Part

_SHIPPED = Path(__file__).with_name("profiles.yaml")


class ServerProfile(BaseModel, frozen=True, extra="forbid"):
    """A row of the table: how one kind of server differs."""

    title: str
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    lacks: tuple[Part, ...] = ()
    path: str = ""
    """The end of its base URL's path."""
    key_header: str = ""
    """The header of the key, beside `Authorization: Bearer`."""
    batches: bool = True
    differs: str = ""

    @property
    def facts(self) -> ModelFacts:
        """The facts about its models before the first refusal."""
        return ModelFacts(lacks=tuple(sorted(self.lacks)))

    def serves(self, host: str, port: int | None) -> bool:
        """Whether an address is known to be such a server's."""
        if host in LOOPBACK:
            return port in self.ports
        return any(host == known or host.endswith(f".{known}") for known in self.hosts)


def profile_of(settings: Settings, base_url: str | None = None) -> ServerProfile | None:
    """The profile of a job's server, or of the settings' server; None if it is of no known kind.

    Raises `ConfigurationError` if the settings name an unknown kind.
    """
    url = base_url or settings.base_url
    if not url:
        return None
    if settings.server and url == settings.base_url:
        return _named(settings.server)
    address = urlsplit(url)
    return next((row for row in load_profiles().values() if row.serves(address.hostname or "", address.port)), None)


def first_facts(settings: Settings, base_url: str | None = None) -> ModelFacts:
    """The facts about a server's models before any was learned."""
    profile = profile_of(settings, base_url)
    return NO_FACTS if profile is None else profile.facts


def explain_path(settings: Settings) -> str:
    """Describe the wrong path of the settings' base URL; empty if it may be right."""
    if (profile := profile_of(settings)) is None:
        return ""
    path = urlsplit(settings.base_url or "").path.rstrip("/")
    if path.endswith(profile.path) and not path.endswith("/v1"):
        return ""
    return (
        f"SWARM_BASE_URL of {profile.title} must end with {profile.path or 'the port'}, not with {path or 'the host'}"
    )


@cache
def load_profiles() -> dict[str, ServerProfile]:
    """The shipped profiles by name."""
    rows = yaml.safe_load(_SHIPPED.read_text(encoding="utf-8"))["servers"]
    return {name: ServerProfile.model_validate(row) for name, row in rows.items()}


def _named(name: str) -> ServerProfile:
    if (profile := load_profiles().get(name)) is None:
        known = ", ".join(load_profiles())
        raise ConfigurationError(f"no kind of server is called {name!r}: SWARM_SERVER is one of {known}")
    return profile
