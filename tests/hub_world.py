"""A hub of a test's own, as the command serves it, and git as a client of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_for

TOKEN = "a-token-of-the-tests"


class HubProcess:
    """`swarm hub` on a free port of this host."""

    def __init__(self, folder: Path, **settings: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self._log = folder / "repositories", folder / "hub.log"
        hidden = ("SWARM_", "ANTHROPIC_", "GIT_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        own = {"SWARM_STATE_DIR": str(folder / "state"), "SWARM_HUB_TOKEN": TOKEN, **settings}
        command = [sys.executable, "-P", "-m", "swarm", "hub", "--port", "0", "--folder", str(self.folder)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, env={**kept, **own}, stdout=log, stderr=log)
        try:
            self.url = wait_for("the hub serves", self._find_url)
        except AssertionError:
            self.close()
            raise

    def _find_url(self) -> str:
        assert self.process.poll() is None, self.text()
        found = re.search(r"the hub serves (\S+)", self.text())
        return found[1] if found else ""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def text(self) -> str:
        """Its log."""
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """End it the polite way; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


class Client:
    """A repository with a commit, and pushes and fetches from it."""

    def __init__(self, folder: Path, *, token: str | None = TOKEN) -> None:
        self.folder, self._token = folder, token
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def commit(self, **files: str | bytes) -> str:
        """Commit these files; returns the commit's id."""
        for name, content in files.items():
            (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "made")
        return self.git("rev-parse", "HEAD").strip()

    def push(self, url: str, ref: str, commit: str = "HEAD") -> str:
        """Push as a new ref; returns git's complaint, empty if there was none."""
        return self.complain("push", "-q", f"--force-with-lease={ref}:", url, f"{commit}:{ref}")

    def git(self, *arguments: str) -> str:
        """What git printed; it must succeed."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def complain(self, *arguments: str) -> str:
        """What git complained about; empty if it succeeded."""
        done = self._run(*arguments)
        return "" if done.returncode == 0 else done.stderr

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        header = []
        if self._token is not None:
            import base64

            known = base64.b64encode(f"swarm:{self._token}".encode()).decode()
            header = ["-c", f"http.extraHeader=Authorization: Basic {known}"]
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **alone}
        command = ["git", *who, *header, *arguments]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=60)
