"""The record of the plugins that a person has added here, each pinned to the content that it had then."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.core.errors import ConfigurationError
from swarm.core.memo import look_at
from swarm.definitions.sources import Unusable, config_folder

RECORD = "installed.json"


class PinnedPlugin(BaseModel):
    """One added plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    """The name of its folder beside the record."""
    digest: str
    """SHA-256 of its content when it was added."""
    origin: str
    """The source, for people."""
    commit: str = ""
    entry: dict[str, Any] = {}
    """The entry in the marketplace."""
    system: str = "claude"


class PinnedPlugins(BaseModel):
    """The record: plugins by id."""

    model_config = ConfigDict(extra="forbid")

    v: int = 1
    plugins: dict[str, PinnedPlugin] = {}


def plugins_home(home: Path) -> Path:
    """Return the folder with a person's added plugins."""
    return config_folder(home) / "swarm" / "plugins"


def read_pinned(home: Path) -> dict[str, PinnedPlugin]:
    """Read the record; empty if there is none. Raises `Unusable`."""
    path = plugins_home(home) / RECORD
    look_at(path)
    try:
        return PinnedPlugins.model_validate_json(path.read_bytes()).plugins
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else "its content is not valid"
        raise Unusable(f"it cannot be read: {why}", "Remove it, and add the plugins again.") from error


def write_pinned(home: Path, plugins: dict[str, PinnedPlugin]) -> None:
    """Replace the record. Raises `ConfigurationError`."""
    folder = plugins_home(home)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{RECORD}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(PinnedPlugins(plugins=plugins).model_dump_json(indent=1))
        os.replace(temporary, folder / RECORD)
    except OSError as error:
        raise ConfigurationError(f"{folder / RECORD} cannot be written: {error.strerror}") from error
