"""Private temporary folders of agents on this host, and the sandbox that hides them."""

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
    """The folder of this swarm's agents. Other swarms of the user have, and sweep, their own."""
    redis = settings.redis_url or str(settings.state_folder())
    # Without user and password: everybody can see the name, and a digest allows guessing.
    scheme, _, rest = redis.rpartition("//")
    mark = hashlib.sha256(f"{scheme}//{rest.rpartition('@')[2]}\0{settings.key_prefix}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}-{mark}"


def broker_folder(settings: Settings) -> Path:
    """The socket folder of this swarm's broker on this host."""
    root = scratch_root(settings)
    return root.with_name(f"{root.name}-mcp")


def remove_scratch(settings: Settings) -> None:
    """Remove the folder of all agents if it is empty."""
    with contextlib.suppress(OSError):
        scratch_root(settings).rmdir()


def clear_scratch(settings: Settings, agent_id: str) -> None:
    """End shells that an ended agent left running, and remove its private folder."""
    folder = scratch_root(settings) / agent_id
    if folder in private_folders(folder.parent):
        kill_shells(folder)
        shutil.rmtree(folder, ignore_errors=True)


def home_folder(context: ToolContext) -> Path:
    """HOME and TMPDIR of the agent's processes, apart from the runtime's own scratch files.

    Raises `ToolError` if the scratch folder belongs to another user.
    """
    folder = scratch_folder(context) / "files"
    if not os.path.lexists(folder):
        make_private_folder(folder, remedy="end the job")
        # A commit needs an author even if the repository names none.
        (folder / ".gitconfig").write_text(
            "[user]\n\tname = swarm\n\temail = swarm@localhost\n[safe]\n\tdirectory = *\n"
        )
    return folder.resolve()


def confine(
    policy: SandboxPolicy, backend: Backend, argv: list[str], settings: Settings, needed: Iterable[Path] = ()
) -> list[str]:
    """Wrap `argv` in a sandbox with this policy. Raises `ToolError` if that is impossible.

    Hides the swarm's own files and Redis; shows toolchains and `needed` paths."""
    hidden = (settings.state_folder(), scratch_root(settings), broker_folder(settings))
    # A folder that contains hidden ones is not shown whole: not every sandbox can hide parts of it again.
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
