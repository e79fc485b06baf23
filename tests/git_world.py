"""A person's folder, a job's copy of it, and the work that comes out."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swarm import Settings
from swarm.client.work import Work
from swarm.workspace.copies import Copies
from swarm.workspace.upload import keep_folder
from tests.needs import need_program

JOB, AGENT = "job-1", "agent-1"


def sh(folder: Path, command: str, *, known: bool = True) -> str:
    """Run a script in a folder; `known` says that Git knows who commits."""
    who = {"GIT_AUTHOR_NAME": "p", "GIT_AUTHOR_EMAIL": "p@x", "GIT_COMMITTER_NAME": "p", "GIT_COMMITTER_EMAIL": "p@x"}
    given = {**os.environ, **(who if known else {}), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=given, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder but Git's own: its kind with the bit to run it, and its content."""
    found = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*files, *(one for one in folders if os.path.islink(os.path.join(top, one)))]:
            full = os.path.join(top, name)
            mode = os.lstat(full).st_mode
            content = os.readlink(full).encode() if stat.S_ISLNK(mode) else _read(full, mode)
            found[os.path.relpath(full, folder)] = (stat.S_IFMT(mode) | mode & 0o100, content)
    return {name: one for name, one in found.items() if name != ".git"}


def _read(full: str, mode: int) -> bytes:
    return Path(full).read_bytes() if stat.S_ISREG(mode) else b""


class World:
    """A person's folder, and a job that works on a copy of it."""

    def __init__(self, top: Path, folder: Path) -> None:
        need_program("git")
        self.folder, self.settings = folder, Settings(state_dir=top / "state", checkouts=top / "checkouts", hub=None)
        kept = keep_folder(self.settings, folder, JOB)
        self.base, self.warnings = kept.commit, kept.warnings
        self.copies = Copies(self.settings.checkouts_folder(), JOB)
        self.copy = self.settings.checkouts_folder() / AGENT / folder.name
        self.copies.enter(AGENT, self.copy, [self.base])

    def work(self, command: str) -> Work:
        """The work of a job that ran this command."""
        sh(self.copy, command, known=False)
        commit = self.copies.keep(AGENT, self.copy, self.base, {"agent": AGENT})
        job: Any = SimpleNamespace(id=JOB, workspace=str(self.folder), created_at=4e9, title="the title")
        spec: Any = SimpleNamespace(base=self.base, files=None, is_carried=False)
        return Work(self.settings, job, spec, commit)
