"""Where the agents of one swarm have their private temporary folders on this host, and the sandbox that hides those of others."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from swarm.core.errors import ToolError
from swarm.core.settings import Settings
from swarm.permissions.sandbox import (
    Backend,
    CannotConfine,
    SandboxPolicy,
    confine_argv,
    resolve_hosts,
    toolchain_folders,
)
from swarm.store.connection import redis_hosts
from swarm.tools import ToolContext
from swarm.tools.background import kill_shells
from swarm.tools.processes import scratch_folder
from swarm.workspace.private import make_private_folder, private_folders


def scratch_root(settings: Settings) -> Path:
    """The folder of all agents of this swarm. Another swarm of the same user has another one, and sweeps only its own."""
    redis = settings.redis_url or str(settings.state_folder())
    # Without user and password: the name is seen by everybody, and a digest lets them be guessed.
    scheme, _, rest = redis.rpartition("//")
    mark = hashlib.sha256(f"{scheme}//{rest.rpartition('@')[2]}\0{settings.key_prefix}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}-{mark}"


def broker_folder(settings: Settings) -> Path:
    """Where this swarm's broker on this host listens."""
    root = scratch_root(settings)
    return root.with_name(f"{root.name}-mcp")


def remove_scratch(settings: Settings) -> None:
    """Remove the folder of all agents, if none of them has anything left in it."""
    with contextlib.suppress(OSError):
        scratch_root(settings).rmdir()


def clear_scratch(settings: Settings, agent_id: str) -> None:
    """The agent is over: end what its shells left running and remove its private folder."""
    folder = scratch_root(settings) / agent_id
    if folder in private_folders(folder.parent):
        kill_shells(folder)
        shutil.rmtree(folder, ignore_errors=True)


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


def confine(
    policy: SandboxPolicy, backend: Backend, argv: list[str], settings: Settings, needed: Iterable[Path] = ()
) -> list[str]:
    """The command that runs `argv` under this policy. What is the swarm's own is hidden, Redis out of reach; toolchains and
    what is `needed` are shown. Raises `ToolError` where that cannot be done."""
    hidden = (settings.state_folder(), scratch_root(settings), broker_folder(settings))
    # What holds something that stays hidden is not shown whole: not every sandbox can take a part of it away again.
    shown = [path for path in needed if not any(one.is_relative_to(path) for one in hidden)]
    policy = replace(
        policy,
        private_network=settings.network == "private",
        unreachable=resolve_hosts(redis_hosts(settings)) if policy.network else (),
        readable=(*toolchain_folders(os.environ, Path.home()), *shown, *policy.readable),
        hidden=(*hidden, *policy.hidden),
    )
    try:
        return confine_argv(policy, backend, argv)
    except CannotConfine as error:
        raise ToolError(str(error)) from error
