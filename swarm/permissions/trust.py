"""Trust: a person's stored decision that what lies in a workspace may loosen rules.

Whatever came with a repository, or was written there by an agent, may at once only restrict. What it would loosen is a `Grant`; grants
count only while the person trusts them, and trust is of the workspace's real path and of the grants' content: a repository that
changes what it asks for is asked about again. The decisions lie in the person's state folder, which agents cannot see.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.core.errors import ConfigurationError
from swarm.definitions.grants import Grant, hash_grants

MAX_KEPT = 20
"""Contents that stay trusted of one workspace: whoever goes back and forth between branches is not asked each time."""


class _Decisions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    v: int = 1
    trusted: dict[str, list[str]] = {}
    """Real path of the workspace → hashes of the grants, the latest last …"""
    last: dict[str, list[Grant]] = {}
    """… and the latest grants themselves: what changed since then is shown."""


class TrustStore:
    """The decisions of one person, in a file of their state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._path = state_folder / "trust.json"

    def is_trusted(self, workspace: Path, grants: Iterable[Grant]) -> bool:
        """Whether exactly these grants of the workspace were trusted. Raises `ConfigurationError` for a file that cannot be read."""
        return hash_grants(grants) in self._load().trusted.get(_key(workspace), [])

    def last(self, workspace: Path) -> list[Grant]:
        """What was trusted of the workspace the last time; nothing if it never was, or no longer is."""
        return self._load().last.get(_key(workspace), [])

    def trust(self, workspace: Path, grants: Sequence[Grant]) -> None:
        """Trust these grants of the workspace, besides those trusted before."""
        decisions, digest = self._load(), hash_grants(grants)
        before = [known for known in decisions.trusted.get(_key(workspace), []) if known != digest]
        decisions.trusted[_key(workspace)] = [*before, digest][-MAX_KEPT:]
        decisions.last[_key(workspace)] = [grant.storable() for grant in grants]
        self._save(decisions)

    def revoke(self, workspace: Path) -> bool:
        """Forget all trust in the workspace; False if there was none."""
        decisions = self._load()
        decisions.last.pop(_key(workspace), None)
        if decisions.trusted.pop(_key(workspace), None) is None:
            return False
        self._save(decisions)
        return True

    def _load(self) -> _Decisions:
        try:
            return _Decisions.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _Decisions()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not what swarm wrote"
            raise ConfigurationError(
                f"the file of trusted workspaces {self._path} cannot be read: {reason}. Remove it; you will be asked again."
            ) from error

    def _save(self, decisions: _Decisions) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A file of mkstemp is the person's alone.
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix="trust-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(decisions.model_dump_json(indent=1))
            os.replace(temporary, self._path)
        except OSError as error:
            raise ConfigurationError(f"trust cannot be stored in {self._path}: {error.strerror}") from error


def _key(workspace: Path) -> str:
    return os.fsencode(workspace.resolve()).decode("utf-8", "backslashreplace")
