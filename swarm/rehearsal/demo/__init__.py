"""The demonstration: a small repository with a planted bug, and the job that finds and fixes it.

Its replies are scripted (the shipped scenario `demo`); the agents, processes, searches, edits and test runs are real. The prompt works
with a real model, too.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.workspace.git import run_git

SCENARIO = "demo"
COORDINATED = "coordinator"
"""Name of the scenario and first agent's type in the coordinator demo, where the runtime enforces its rules."""

_SAMPLE = Path(__file__).parent / "sample"
# The sample's files end in `.txt`, so that test runners, linters and packagers ignore them.
_SUFFIX = ".txt"
_DOT = "dot_"
_GIT_SECONDS = 30.0
_IDENTITY = {"user.name": "swarm demo", "user.email": "demo@localhost"}


@dataclass(frozen=True)
class Demo:
    """A copy of the sample repository, and its job."""

    workspace: Path
    prompt: str
    test_command: list[str]
    """Test command that fails in the workspace before the job and passes after it."""


def prepare_demo(target: Path | None = None) -> Demo:
    """Copy the sample to `target`, or to a new temporary folder, as a Git repository if Git is installed.

    The copy belongs to the caller. Raises `ConfigurationError` if `target` is not empty.
    """
    if target is None:
        workspace = Path(tempfile.mkdtemp(prefix="swarm-demo-")).resolve() / "till"
    else:
        workspace = target.expanduser().resolve()
    _copy_sample(workspace)
    _commit(workspace)
    test_command = [sys.executable, "-m", "unittest", "-q"]
    return Demo(workspace, _prompt(test_command), test_command)


def _prompt(test_command: list[str]) -> str:
    # The scenario reads the command between the backquotes.
    return (
        "The tests of this repository fail. Find the cause, correct the code and not the test, and add a test that "
        "would have caught it. Have the change reviewed.\n"
        f"Prove the result by running the tests with `{shlex.join(test_command)}`."
    )


def _copy_sample(workspace: Path) -> None:
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        if any(workspace.iterdir()):
            raise ConfigurationError(f"the folder {workspace} is not empty; name a new one for the demo")
        for source in sorted(_SAMPLE.rglob(f"*{_SUFFIX}")):
            name = source.name.removesuffix(_SUFFIX)
            if name.startswith(_DOT):
                name = f".{name.removeprefix(_DOT)}"
            copy = workspace / source.relative_to(_SAMPLE).parent / name
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(source.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"the demo cannot be copied to {workspace}: {error.strerror}; name another folder"
        ) from error


def _commit(workspace: Path) -> None:
    """Commit the copy to a repository, if Git is installed, so that `git diff` shows the job's work."""
    try:
        for arguments in (
            ["init", "--quiet", "--template="],
            ["add", "--all"],
            ["commit", "--quiet", "--message", "Start the till"],
        ):
            ran = run_git(workspace, arguments, settings=_IDENTITY, timeout_seconds=_GIT_SECONDS)
            if ran.returncode:
                raise ConfigurationError(f"git {arguments[0]} failed")
    except ConfigurationError:
        shutil.rmtree(workspace / ".git", ignore_errors=True)
