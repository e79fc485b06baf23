"""Files of agents that change nothing: on each host one checkout of a tree, for all agents of the job that read it.

Their sandbox holds them to reading, and they have no tool that writes, so nothing is kept after a call. Whoever runs holds a lock of the
checkout, shared with the others that do; the system lets go of it whatever becomes of the process, and what is held is not taken away.
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
from swarm.workspace.spares import become

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts


def keeping_of(parts: Parts) -> WorkspaceSync:
    """What this segment does about files, as its agent was started."""
    spec = parts.segment.spec
    if spec.files is None:
        return WorkspaceSync(parts)
    if not spec.is_carried:
        return LocalSnapshots(parts)
    return SharedCheckout(parts) if spec.reads_with_others else GitSync(parts)


def files_of(parts: Parts) -> WorkspaceSync:
    """The same as a step of the loop."""
    return parts.files


class SharedCheckout(ThroughHub):
    """The checkout of a tree, made by the first who needs it on this host."""

    _held: int | None = None
    """The lock that keeps it here."""

    def enter(self) -> bool:
        self._held = hold_for_reading(self._repository.git_dir)
        if self._is_ready():
            os.utime(self._ready_mark)
            return False
        self._patiently(self._make, give_up_after=ENTER_SECONDS)
        return True

    def after_segment(self) -> None:
        """From now on it may be taken away."""
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
        """Bring the tree, unless somebody else has done so meanwhile. Nobody reads what is not ready."""
        repository, commit = self._repository, self._segment.spec.base
        with locked(repository.git_dir / "making"):
            if self._is_ready():
                return
            try:
                repository.fetch(self._url, commit, self._token, seconds=seconds)
                become(repository.git_dir.parent, repository, commit, boot_id())
            except GitFailed as error:
                if error.trouble in ("away", "denied"):
                    raise
                # What a host's crash has left is of no use. All of it is at the hub.
                (repository.git_dir / "index").unlink(missing_ok=True)
                repository.fetch(self._url, commit, self._token, seconds=seconds, anew=True)
                repository.become(commit)
            self._ready_mark.write_text(boot_id())
