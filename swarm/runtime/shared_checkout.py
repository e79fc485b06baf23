"""Files of read-only agents: per host one checkout of a tree, shared by a job's readers.

The sandbox allows them to read only, and they have no writing tool, so nothing is kept after a call. A running agent holds a shared lock
of the checkout, which the system releases when the process ends. A locked checkout is not removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.core.errors import GitFailed
from swarm.runtime.workspace_sync import ENTER_SECONDS, GitSync, LocalSnapshots, ThroughHub, WorkspaceSync, boot_id
from swarm.workspace.checkouts import hold_for_reading
from swarm.workspace.git_command import locked
from swarm.workspace.histories import fetch_with_history
from swarm.workspace.spares import become

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts


def sync_of(parts: Parts) -> WorkspaceSync:
    """Choose this segment's file synchronization by the agent's spec."""
    spec = parts.segment.spec
    if spec.files is None:
        return WorkspaceSync(parts)
    if not spec.is_carried:
        return LocalSnapshots(parts)
    return SharedCheckout(parts) if spec.reads_with_others else GitSync(parts)


def files_of(parts: Parts) -> WorkspaceSync:
    """The file synchronization as a step of the loop."""
    return parts.files


class SharedCheckout(ThroughHub):
    """A tree's checkout, made by its first user on this host."""

    _held: int | None = None
    """The lock that prevents removal."""

    def enter(self) -> bool:
        self._held = hold_for_reading(self._repository.git_dir)
        if self._is_ready():
            os.utime(self._ready_mark)
            return False
        self._patiently(self._make, give_up_after=ENTER_SECONDS)
        return True

    def after_segment(self) -> None:
        """Release the checkout for removal."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    @property
    def _ready_mark(self) -> Path:
        return self._repository.git_dir / "swarm-boot"

    def _is_ready(self) -> bool:
        with suppress(OSError):
            is_same = self._ready_mark.read_text() == boot_id() and self._repository.tip() == self._segment.spec.base
            return is_same and self._repository.tree.is_dir()
        return False

    def _make(self, seconds: float) -> None:
        """Make the checkout unless another process just did. Agents read only a ready one."""
        repository, commit = self._repository, self._segment.spec.base
        with locked(repository.git_dir / "making"):
            if self._is_ready():
                return
            try:
                checkouts = repository.git_dir.parent
                fetch_with_history(checkouts, repository, self._url, commit, self._token, seconds)
                become(repository.git_dir.parent, repository, commit, boot_id())
            except GitFailed as error:
                if error.trouble in ("away", "denied", "disk"):
                    raise
                # Remains of a host crash are useless. The hub has everything.
                (repository.git_dir / "index").unlink(missing_ok=True)
                repository.fetch(self._url, commit, self._token, seconds=seconds, anew=True)
                repository.become(commit)
            self._bring_dependencies(commit)
            self._ready_mark.write_text(boot_id())
