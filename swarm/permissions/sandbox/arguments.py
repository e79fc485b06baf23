"""The words for `enter.py` that both backends use: limits and variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from swarm.permissions.sandbox.guard import Own
from swarm.permissions.sandbox.host import UNSET
from swarm.permissions.sandbox.obeyed import Obeyed
from swarm.permissions.sandbox.policy import SandboxPolicy

ENTER = Path(__file__).with_name("enter.py")
_CPU, _FILE_SIZE, _DATA, _CORE = 0, 1, 2, 4
"""Numbers of `setrlimit`. They limit private memory, not address space, because runtimes reserve far more than they use."""


def common_words(policy: SandboxPolicy, *, scratch: str, home: str) -> list[str]:
    """Return the words for limits and variables; `scratch` and `home` are the command's private folder and its home."""
    limits = [(_DATA, policy.memory_bytes), (_FILE_SIZE, policy.file_size_bytes), (_CORE, 0)]
    if policy.cpu_seconds is not None:
        limits.append((_CPU, policy.cpu_seconds))
    words = [f"limit={kind}:{value}" for kind, value in limits]
    words += [f"set=HOME={home}", f"set=TMPDIR={scratch}"]
    return words + [f"unset={name}" for name in UNSET]


def watch_words(looked: Mapping[Path, Obeyed], own: Own) -> list[str]:
    """Return the words with which a supervisor checks a writer's folders after a command and protects git folders."""
    words = [f"own={key}={value}" for key, value in own]
    for root, found in looked.items():
        words += [f"look={root}", *(f"had={digest} {root}/{path}" for path, digest in sorted(found.digests.items()))]
        mains = [path for path in found.repositories if os.path.basename(os.path.dirname(path)) != "worktrees"]
        usable = [path for path in mains if f"{path}/commondir".lstrip("/") not in found.digests]
        words += [f"stub={os.path.join(root, path)}" for path in sorted(usable)]
    return words


def enter_argv(words: list[str], argv: list[str]) -> list[str]:
    """Return the command that carries out the words and then becomes `argv`."""
    return [sys.executable, "-I", "-S", str(ENTER), *words, "--", *argv]
