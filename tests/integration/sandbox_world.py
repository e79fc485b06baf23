"""A workspace, a scratch folder, and around them what an agent's shell must not reach; for each backend and user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from swarm.tools.processes import Report
from tests.needs import lack, need, need_program
from tests.waiting import wait_for

DRIVER = Path(__file__).with_name("sandbox_driver.py")
SECRET = "swordfish-4711"
IS_ROOT = os.geteuid() == 0
USERS = ("this user", "nobody") if IS_ROOT else ("this user",)
JAILS = [(backend, user) for backend in ("bubblewrap", "landlock") for user in USERS]


@dataclass(frozen=True)
class User:
    """Who runs the commands, and with which Python."""

    uid: int
    gid: int
    prefix: tuple[str, ...]
    python: str


@lru_cache(maxsize=2)
def find_user(name: str) -> User:
    if name == "this user":
        return User(os.geteuid(), os.getegid(), (), sys.executable)
    nobody = pwd.getpwnam("nobody")
    prefix = (need_program("setpriv"), f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        code = "import os, sys; sys.exit(sys.version_info < (3, 11) or not os.access(sys.executable, os.X_OK))"
        if subprocess.run([*prefix, python, "-c", code], capture_output=True, check=False).returncode == 0:
            return User(nobody.pw_uid, nobody.pw_gid, prefix, python)
    lack("a Python for another user", "`nobody` can run none that is new enough")


@lru_cache(maxsize=8)
def probe(backend: str, user: User) -> dict[str, Any]:
    """What the probe says when that user runs it."""
    argv = [*user.prefix, user.python, str(DRIVER), json.dumps({"probe": backend})]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, cwd="/")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    exit_code: int
    output: str
    timed_out: bool = False
    held: tuple[str, ...] = ()


@dataclass
class SandboxWorld:
    """One agent's folders; `other` is another agent's, `home` the user's, `victim` a process of the runtime."""

    root: Path
    user: User
    backend: dict[str, Any]
    victim: psutil.Process
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    workspace: Path = field(init=False)
    scratch: Path = field(init=False)
    other: Path = field(init=False)
    home: Path = field(init=False)

    def __post_init__(self) -> None:
        self.workspace, self.scratch = self.root / "work", self.root / "scratch"
        self.other, self.home = self.root / "other", self.root / "home"

    def holds(self, promise: str) -> bool:
        return promise in self.backend["promises"]

    def names(self) -> dict[str, str]:
        """Paths and numbers, as variables of the command."""
        found = {"WORK": self.workspace, "OTHER": self.other, "HOUSE": self.home, "SCRATCH": self.scratch}
        return {**{name: str(path) for name, path in found.items()}, "VICTIM": str(self.victim.pid)}

    def start(
        self, command: str, *, open: bool = False, limit: float = 30, closed: bool = False, **policy: Any
    ) -> subprocess.Popen[bytes]:
        """Start a shell command, in the sandbox unless it is an `open` one, under the real supervisor.

        `closed`: by a process whose memory is closed to others, as a worker's is.
        """
        given = {
            "argv": ["/bin/bash", "-c", command],
            "backend": None if open else {name: self.backend[name] for name in ("name", "promises", "program", "abi")},
            "policy": {"workspace": str(self.workspace), "scratch": str(self.scratch), "read_only": False, **policy},
            "limit": limit,
            "closed": closed,
        }
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {"PATH": path, "HOME": str(self.home), "TMPDIR": str(self.scratch), **self.names()}
        process = subprocess.Popen(
            [*self.user.prefix, self.user.python, str(DRIVER), json.dumps(given)],
            cwd=self.workspace,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def run(self, command: str, **given: Any) -> Ran:
        process = self.start(command, **given)
        assert process.stdout and process.stderr and process.stdin
        # Not `communicate`: it would close the lifeline first.
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(process.stderr, kept)
            line = process.stdout.read()
            kept.seek(0)
            output = kept.read().decode("utf-8", "replace")
        self.end(process)
        report = Report.parse(line)
        assert report is not None and report.contained, (line, output)
        return Ran(report.exit_code, output, report.timed_out, report.held)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait(20)

    def file(self, path: Path, text: str = "", mode: int = 0o600) -> Path:
        """A file of the user who runs the commands: no mode of it keeps him out."""
        for folder in reversed([each for each in path.parents if each.is_relative_to(self.root) and not each.exists()]):
            folder.mkdir(mode=0o700)
            os.chown(folder, self.user.uid, self.user.gid)
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, self.user.uid, self.user.gid)
        return path


@contextmanager
def open_world(backend: str, user_name: str) -> Iterator[SandboxWorld]:
    user = find_user(user_name)
    found = probe(backend, user)
    need(found["works"], backend, f"for {user_name}, {found.get('reason')}")
    root = Path(tempfile.mkdtemp(prefix="swarm-jail-", dir="/tmp")).resolve()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o755)
        os.chown(root, user.uid, user.gid)
        victim = subprocess.Popen(
            [*user.prefix, "sleep", "600"], env={"PATH": os.environ["PATH"], "API_KEY": SECRET}, start_new_session=True
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        world = SandboxWorld(root, user, found, psutil.Process(victim.pid))
        stack.callback(lambda: [world.end(process) for process in world.running if process.poll() is None])
        for folder in (world.workspace, world.scratch, world.other, world.home):
            world.file(folder / "here")
        world.file(world.workspace / "kept", "kept")
        world.file(world.other / "secret", SECRET)
        world.file(world.home / ".ssh" / "id_rsa", SECRET)
        wait_for("the victim runs", lambda: world.victim.name() == "sleep")
        yield world
