"""Trust: a person's stored decision that files of a workspace may loosen rules.

Files from a repository or from an agent can restrict at once. To loosen rules they need a `Grant`, which counts only while the person
trusts it. Trust belongs to the workspace's real path and the grants' content, so changed grants need a new decision. The decisions lie
in the person's state folder, which agents cannot see.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.core.errors import ConfigurationError
from swarm.core.memo import look_at
from swarm.definitions.grants import Grant, hash_grants

MAX_KEPT = 20
"""Trusted sets of grants per workspace, so that switching branches does not ask again each time."""


class _Decisions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    v: int = 1
    trusted: dict[str, list[str]] = {}
    """Real path of the workspace → hashes of the grants, the latest last."""
    last: dict[str, list[Grant]] = {}
    """The latest grants themselves, to show later changes."""


class TrustStore:
    """The decisions of one person, in a file of their state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._path = state_folder / "trust.json"

    def is_trusted(self, workspace: Path, grants: Iterable[Grant]) -> bool:
        """Report whether exactly these grants were trusted. Raises `ConfigurationError` if the file cannot be read."""
        return hash_grants(grants) in self._load().trusted.get(_key(workspace), [])

    def last(self, workspace: Path) -> list[Grant]:
        """Return the grants of the workspace that were trusted last; empty without trust."""
        return self._load().last.get(_key(workspace), [])

    def trust(self, workspace: Path, grants: Sequence[Grant], *, keep: bool = True) -> None:
        """Trust these grants of the workspace, in addition to earlier ones; `keep` them as its last."""
        decisions, digest = self._load(), hash_grants(grants)
        before = [known for known in decisions.trusted.get(_key(workspace), []) if known != digest]
        decisions.trusted[_key(workspace)] = [*before, digest][-MAX_KEPT:]
        if keep:
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
        look_at(self._path)
        try:
            return _Decisions.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _Decisions()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its content is not valid"
            raise ConfigurationError(
                f"the file of trusted workspaces {self._path} cannot be read: {reason}. Remove it; you will be asked again."
            ) from error

    def _save(self, decisions: _Decisions) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp makes the file private to the person.
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix="trust-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(decisions.model_dump_json(indent=1))
            os.replace(temporary, self._path)
        except OSError as error:
            raise ConfigurationError(f"trust cannot be stored in {self._path}: {error.strerror}") from error


def _key(workspace: Path) -> str:
    return os.fsencode(workspace.resolve()).decode("utf-8", "backslashreplace")
