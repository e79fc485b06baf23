"""The settings file of a host: lines `NAME=VALUE` for systemd, Docker, Kubernetes and `swarm --env`. It holds secrets."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from swarm.core.errors import ConfigurationError

_PLAIN = re.compile(r"[\w.,:;/@%+=*?&{}\[\]~-]*", re.ASCII)


def default_place() -> Path:
    """The file of this user's hosts; root's is the one that the systemd units read."""
    if os.geteuid() == 0:
        return Path("/etc/swarm/swarm.env")
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "swarm" / "swarm.env"


def read_settings(path: Path) -> dict[str, str]:
    """Return a file's variables that have a value; none if there is no file. Raises `ConfigurationError`."""
    try:
        with path.open(encoding="utf-8") as text:
            return {name: value for name, value in dotenv_values(stream=text, interpolate=False).items() if value}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the settings file {path} cannot be read: {error}") from None


def write_settings(path: Path, values: Mapping[str, str]) -> list[str]:
    """Set variables in a file, and return the names of the changed ones. Other lines stay as they are. Only the owner can read the file.

    A variable that is commented out gets its value in that place. Nothing is written if nothing changes. Raises `ConfigurationError`.
    """
    before = read_settings(path)
    changed = [name for name, value in values.items() if before.get(name) != value]
    if not changed:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for name in changed:
            line, given = f"{name}={_quote(name, values[name])}", re.compile(rf"#?{name}=")
            places = [place for place, old in enumerate(lines) if given.match(old)]
            # The last line of a name is the one that counts.
            place = max(places, key=lambda at: (not lines[at].startswith("#"), at), default=len(lines))
            lines[place : place + 1] = [line]
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write("\n".join(lines) + "\n")
        os.replace(made, path)
    except OSError as error:
        raise ConfigurationError(f"the settings file {path} cannot be written: {error.strerror}") from None
    return changed


def take_settings(path: Path) -> None:
    """Add a file's variables to this process's environment, except the names that it has. Raises `ConfigurationError`."""
    if not path.is_file():
        raise ConfigurationError(f"there is no settings file {path}; `swarm join` writes one")
    os.environ.update({name: value for name, value in read_settings(path).items() if name not in os.environ})


def _quote(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if re.search(r"['\\\n]", value):
        raise ConfigurationError(
            f"{name} has a quote, a backslash or a line break, which the settings file cannot hold"
        )
    return f"'{value}'"
