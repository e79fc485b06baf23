"""The demonstration: a small repository with a planted bug, and the job that finds, corrects and proves it.

Its words are rehearsed (the shipped scenario `demo`); the agents, processes, searches, edits and test runs are real.
The same prompt can be given to a real model.
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
"""The scenario, and the type of the first agent, in which the runtime holds a coordinator to its rules."""

_SAMPLE = Path(__file__).parent / "sample"
# The sample's files end in `.txt`, so that no test runner, linter or packager takes them for ours.
_SUFFIX = ".txt"
_DOT = "dot_"
_GIT_SECONDS = 30.0
_IDENTITY = {"user.name": "swarm demo", "user.email": "demo@localhost"}


@dataclass(frozen=True)
class Demo:
    """A copy of the sample repository, and the job that belongs to it."""

    workspace: Path
    prompt: str
    test_command: list[str]
    """Run in the workspace it fails before the job and passes after it."""


def prepare_demo(target: Path | None = None) -> Demo:
    """Copy the sample to `target`, or to a new temporary folder, as a Git repository if there is Git.

    The copy belongs to the caller. Raises `ConfigurationError` if `target` holds anything already.
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
    # The scenario takes the command from between the backquotes.
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
    """Make the copy a repository with one commit, so that `git diff` shows the job's work, unless Git cannot."""
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
