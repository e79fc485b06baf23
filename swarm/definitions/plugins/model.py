"""Data of a plugin: its parts, its content's digest, and the folder as it travels with a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict

from swarm.core.formats import Formatted
from swarm.definitions.carried_files import CarriedFile
from swarm.definitions.grants import Grant
from swarm.definitions.plugins.words import DATA, FOLDERS, fill_folders, place_of
from swarm.definitions.sources import Problem

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
"""A plugin's or a marketplace's name."""


class PluginBundle(Formatted):
    """A plugin's folder as it travels with a job."""

    model_config = ConfigDict(frozen=True)

    files: dict[str, CarriedFile] = {}
    """Files by path below the folder."""


class JobPlugins(Formatted):
    """The document `plugins` of a job: the folders that its agents' hooks, servers, skills and commands need."""

    model_config = ConfigDict(frozen=True)

    bundles: dict[str, str] = {}
    """Digest of each plugin's bundle, by the plugin's place."""


class PluginTable(NamedTuple):
    """A table of hooks, servers or commands, with the file that holds it."""

    path: Path
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Plugin:
    """A plugin as it lies on this machine."""

    name: str
    """The prefix of everything that it brings."""
    market: str
    """The marketplace that it comes from; empty for a folder or a repository of its own."""
    folder: Path
    version: str = ""
    commit: str = ""
    """The commit that it was installed from, if known."""
    system: str = ""
    """The system that installed it."""
    digest: str = ""
    """SHA-256 over the paths, rights and contents of all its files, and its entry in the marketplace."""
    bundle: str = field(default="", repr=False)
    """The folder as JSON (`PluginBundle`), if a file of the plugin refers to that; else empty."""
    bundle_digest: str = ""
    agents: tuple[Path, ...] = ()
    """Files and folders."""
    skills: tuple[Path, ...] = ()
    """Folders."""
    commands: tuple[Path, ...] = ()
    """Files and folders."""
    command_tables: tuple[PluginTable, ...] = ()
    hooks: tuple[PluginTable, ...] = ()
    servers: tuple[PluginTable, ...] = ()
    problems: tuple[Problem, ...] = ()
    in_workspace: bool = False
    """The folder came with the workspace's repository."""
    enabled_by: str = ""
    """The workspace's file that enables it; empty for one of the person's own choice."""
    disabled_by: str = ""
    """The workspace's file that disables it."""

    def counts(self, *, trusted: bool) -> bool:
        """Report whether it counts: what a workspace's files choose holds only if it is trusted."""
        return not (self.disabled_by if trusted else self.enabled_by)

    @property
    def id(self) -> str:
        """The plugin's id, as settings name it: `NAME@MARKETPLACE`, or the name alone."""
        return f"{self.name}@{self.market}" if self.market else self.name

    @property
    def place(self) -> str:
        """The name of its folder on workers, which depends on its content."""
        return place_of(self.name, self.bundle_digest or self.digest)

    def in_text(self, text: str) -> str:
        """Fill a text for agents in with the plugin's folders, as agents' commands and tools find them."""
        return fill_folders(text, f"${FOLDERS}/{self.place}", f"$HOME/.plugins/{self.name}")

    def in_server(self, value: Any) -> Any:
        """Fill the entry of an MCP server in with the plugin's folders, as workers know them."""
        if isinstance(value, str):
            return fill_folders(value, f"${{{FOLDERS}}}/{self.place}", f"${{{DATA}}}")
        if isinstance(value, Mapping):
            return {key: self.in_server(one) for key, one in value.items()}
        return [self.in_server(one) for one in value] if isinstance(value, list) else value


class Brought(NamedTuple):
    """The usable parts of one plugin, and the reasons why others are not."""

    names: Mapping[str, list[str]]
    """Names by kind."""
    problems: Sequence[Problem] = ()
    runs: Sequence[str] = ()
    """Programs and addresses, as written."""


@dataclass(frozen=True)
class Plugins:
    """The plugins for a workspace, in order of precedence."""

    all: tuple[Plugin, ...] = ()
    problems: tuple[Problem, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    """Ids of plugins that are enabled and not installed, each with the file that enables it."""
    off: tuple[tuple[str, str], ...] = ()
    """Ids of installed plugins that the person has switched off, each with the file."""
    grants: tuple[Grant, ...] = ()
    """Choices of the workspace's files among plugins; they hold only if it is trusted."""

    def counting(self, *, trusted: bool) -> list[Plugin]:
        """Return the plugins that count."""
        return [one for one in self.all if one.counts(trusted=trusted)]
