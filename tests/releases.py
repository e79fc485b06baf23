"""Other releases of the swarm as trees of files: the last one, from the repository's history, and a made-up next one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from swarm.core.release import FORMAT, VERSION
from tests.needs import need

ROOT = Path(__file__).parents[1]
_PARTS = ("swarm", "tasks", "mailbox")
_RELEASE = "swarm/core/release.py"
_VERSION = re.compile(r'^VERSION = "(.+)"', re.M)
NEXT_VERSION, NEXT_FORMAT = "99.0.0", FORMAT + 1
MOOD = "mood"
"""The field that the next release has added to an agent's specification and to each journal entry."""


def last_release(folder: Path) -> Path:
    """Unpack the last release: the newest tag `v*`, else the commit that set the newest version without `.dev`, else the last commit."""
    need((ROOT / ".git").exists(), "the repository's history", "this is a copy without it")
    tags = _git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").split()
    commits = _git("log", "--format=%H", "--", _RELEASE).split()
    versions = {
        commit: found[1] for commit in commits if (found := _VERSION.search(_git("show", f"{commit}:{_RELEASE}")))
    }
    released = [commit for commit in commits if ".dev" not in versions.get(commit, ".dev")]
    # The oldest commit of the newest version set it.
    set_by = [commit for commit in released if versions[commit] == versions[released[0]]]
    [commit] = tags[:1] or set_by[-1:] or ["HEAD"]
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, *_PARTS], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def next_release(folder: Path) -> Path:
    """Make a release after today's code, whose records and entries have a field that today's code does not know."""
    for part in _PARTS:
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    _edit(folder / _RELEASE, f'VERSION = "{VERSION}"', f'VERSION = "{NEXT_VERSION}"')
    _edit(folder / _RELEASE, f"FORMAT: int = {FORMAT}", f"FORMAT: int = {NEXT_FORMAT}")
    add = f"""UPGRADES[{FORMAT}] = (
    lambda name, document: document | {{"{MOOD}": "upgraded"}} if name in ("AgentSpec", "entry") else document
)


class NewerFormat("""
    _edit(folder / "swarm/core/formats.py", "class NewerFormat(", add)
    _edit(folder / "swarm/agent/spec.py", "    agent_id: str\n", f'    agent_id: str\n    {MOOD}: str = "new"\n')
    _edit(
        folder / "swarm/agent/journaled.py", "    at: float = 0.0\n", f'    at: float = 0.0\n    {MOOD}: str = "new"\n'
    )
    return folder


def environment(tree: Path) -> dict[str, str]:
    """What makes a process use this release, with the packages of this environment."""
    return {"PYTHONPATH": str(tree)}


def run_in(tree: Path, program: str, variables: dict[str, str]) -> str:
    """Run a Python program in this release; returns its output."""
    return _run(tree, ["-c", program], variables).stdout


def swarm_in(tree: Path, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this release's command."""
    return _run(tree, ["-m", "swarm", *arguments], variables, check=False)


def _run(
    tree: Path, arguments: list[str], variables: dict[str, str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, **variables, **environment(tree)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path} holds {old!r} once"
    path.write_text(text.replace(old, new))
