"""A private world for the command: a state folder, a home and a workspace of its own, and a look for what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from swarm.core.settings import Settings
from swarm.local.stack import down
from tests.e2e.prepared import prepared_swarm

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 90.0


@dataclass
class World:
    """Where the command runs."""

    state: Path
    home: Path
    workspace: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """The command's environment: no key, no Redis, no settings but its own."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SWARM_", "ANTHROPIC_", "XDG_", "FLOWER_"))
        }
        own = {"HOME": str(self.home), "SWARM_STATE_DIR": str(self.state), "SWARM_KEEP_SECONDS": "0"}
        return {**kept, **own, **variables}

    def command(self, *arguments: str) -> list[str]:
        """The command line of `swarm`."""
        return [sys.executable, "-m", "swarm", *arguments]

    def run(self, *arguments: str, stdin: bytes | None = None, **variables: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command to its end."""
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [prepared_swarm(), *arguments],
            capture_output=True,
            cwd=ROOT,
            env=self.environment(**variables),
            timeout=PATIENCE_SECONDS,
            **given,
        )

    def start(self, *arguments: str, prepared: bool = False, **variables: str) -> subprocess.Popen[bytes]:
        """Start the command and leave it running; `prepared`, if nobody sends it signals."""
        return subprocess.Popen(
            [prepared_swarm(), *arguments] if prepared else self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=self.environment(**variables),
            start_new_session=True,
        )

    def read_json(self, *arguments: str, **variables: str) -> Any:
        """The one JSON document that a command prints."""
        ran = self.run(*arguments, **variables)
        assert ran.returncode == 0, ran.stderr.decode()
        return json.loads(ran.stdout)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Every living process that was started for this state folder, with this word of its command if one is given."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("SWARM_STATE_DIR") == str(self.state)
                if ours and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                    found += [process] if not word or word in process.cmdline() else []
            except (psutil.Error, OSError):
                continue
        return found

    def clear(self) -> None:
        """Stop what is left."""
        down(Settings(state_dir=self.state), grace_seconds=1.0)
        for process in self.processes():
            process.send_signal(signal.SIGKILL)


def wait_for_line(process: subprocess.Popen[bytes], text: str) -> list[str]:
    """Read the process's stderr until a line holds `text`; the lines so far."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.decode())
        if text in lines[-1]:
            return lines
    raise AssertionError(f"{text!r} was never said, but:\n{''.join(lines)}")
