"""Score a job's files by a person's command, run on this machine in a folder with the job's last state."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from swarm.client.swarm import Swarm
from swarm.core.errors import GitFailed, NoWork
from swarm.core.ids import root_agent_id

LONGEST_SECONDS = 600.0
"""Maximum seconds of a command; a longer one is ended, and counts as failed."""
NOTHING: Mapping[str, str] = MappingProxyType({})
_TAIL_BYTES = 4_096


@dataclass(frozen=True)
class Score:
    """The command's result for one job."""

    passed: bool
    """Whether the command exited with 0."""
    said: str
    """Last line of the output, or the reason why the command did not run."""
    void: bool = False
    """The command could not be run, which says nothing about the job."""


def score(
    swarm: Swarm,
    job_id: str,
    workspace: str,
    command: str,
    seconds: float = LONGEST_SECONDS,
    environment: Mapping[str, str] = NOTHING,
) -> Score:
    """Run the command by the shell in a copy of the job's last state, or in `workspace` if the job worked there."""
    try:
        folder = swarm.work(root_agent_id(job_id)).check_out()
    except NoWork:
        folder = Path(workspace)
    except GitFailed as error:
        return Score(False, f"its files are not available: {error}", void=True)
    return run_scored(command, folder, {"SWARM_JOB_ID": job_id, **environment}, seconds)


def run_scored(command: str, folder: Path, environment: dict[str, str], seconds: float) -> Score:
    """Run the command in the folder with these added variables; its process group ends with it."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Score(False, f"it cannot be run in {folder}: {error}", void=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return Score(False, f"it took longer than {seconds:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = output.read().decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Score(code == 0, said or f"exited with {code}")
