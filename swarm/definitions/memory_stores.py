"""Memory stores: pages for a scope and a type of agent, and a store that a project's agents share.

A project is the workspace's repository, identified by the real path of its main working tree. Worktrees share it. Nothing that a
repository says of itself (its remote's address, its name) opens another project's memory.
"""

from __future__ import annotations

import getpass
import hashlib
import re
import socket
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from swarm.core.memo import look_at, look_for
from swarm.definitions.model import MemoryScope
from swarm.definitions.sources import project_folders


class MemoryStore(BaseModel):
    """A memory store's identity: its scope, type and place."""

    model_config = ConfigDict(frozen=True)

    scope: MemoryScope
    type: str = ""
    """The agents' type; empty for a team's store, which all types share."""
    about: str
    """The person, the project's folder, or the workspace."""

    @property
    def id(self) -> str:
        """The memory store's id, as people type it: `project:shop-1a2b3c4d:reviewer`."""
        where = self.about if self.scope == "user" else _name_folder(self.about)
        return ":".join(part for part in (self.scope, where, self.type) if part)


class Places(BaseModel):
    """The places of memory for a job's agents; stored with the job."""

    model_config = ConfigDict(frozen=True)

    owner: str
    project: str
    workspace: str

    def memory_store(self, scope: MemoryScope, agent_type: str) -> MemoryStore:
        """The memory store of a scope for this type of agent."""
        about = {"user": self.owner, "local": self.workspace}.get(scope, self.project)
        return MemoryStore(scope=scope, type="" if scope == "team" else agent_type, about=about)


def find_places(workspace: Path, owner: str | None = None) -> Places:
    """The places for a job in this workspace."""
    host = socket.gethostname()
    return Places(
        owner=re.sub(r"[^\w.@-]", "_", owner or _login()),
        project=str(find_project(workspace)),
        workspace=f"{host}:{workspace}",
    )


def find_project(workspace: Path) -> Path:
    """The project's folder: the main working tree of a linked worktree, else the repository's root."""
    root = project_folders(workspace)[-1]
    link = root / ".git"
    look_for(link)
    try:
        if not link.is_file():
            return root
        look_at(link)
        git = (root / link.read_text().removeprefix("gitdir:").strip()).resolve()
        look_at(git / "gitdir")
        look_at(git / "commondir")
        # A `.git` file can name any repository; it counts only if that repository knows this worktree.
        known = Path((git / "gitdir").read_text().strip())
        common = (git / (git / "commondir").read_text().strip()).resolve()
    except (OSError, ValueError):
        return root
    mutual = known.is_absolute() and known.resolve() == link.resolve() and git.parent == common / "worktrees"
    return common.parent if mutual and common.name == ".git" else root


def _name_folder(about: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(about).name)[:40] or "root"
    return f"{name}-{hashlib.sha256(about.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "somebody"
