"""Where the agents of one swarm have their private temporary folders on this host."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from swarm.settings import Settings
from swarm.tools import ToolContext
from swarm.tools.processes import scratch_folder
from swarm.workspace.private import make_private_folder


def scratch_root(settings: Settings) -> Path:
    """The folder of all agents of this swarm. Another swarm of the same user has another one, and sweeps only its own."""
    redis = settings.redis_url or str(settings.state_folder())
    # Without user and password: the name is seen by everybody, and a digest lets them be guessed.
    scheme, _, rest = redis.rpartition("//")
    mark = hashlib.sha256(f"{scheme}//{rest.rpartition('@')[2]}\0{settings.key_prefix}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}-{mark}"


def remove_scratch(settings: Settings) -> None:
    """Remove the folder of all agents, if none of them has anything left in it."""
    with contextlib.suppress(OSError):
        scratch_root(settings).rmdir()


def home_folder(context: ToolContext) -> Path:
    """The HOME and TMPDIR of the agent's processes. Not the scratch folder itself: the runtime keeps files of its own there.

    Raises `ToolError` if the scratch folder is somebody else's.
    """
    folder = scratch_folder(context) / "files"
    if not os.path.lexists(folder):
        make_private_folder(folder, remedy="end the job")
        # Where a repository names nobody, a commit needs somebody.
        (folder / ".gitconfig").write_text(
            "[user]\n\tname = swarm\n\temail = swarm@localhost\n[safe]\n\tdirectory = *\n"
        )
    return folder.resolve()
