"""A workspace, a scratch folder, and around them what an agent's shell must not reach; for each backend and user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
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
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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


class Driver:
    """The process of a user whose copies become the commands; it ends with the tests."""

    def __init__(self, user: User) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [*user.prefix, user.python, str(DRIVER), str(theirs.fileno())]
            subprocess.Popen(argv, env={"PATH": PATH}, cwd="/", pass_fds=[theirs.fileno()])

    def ask(self, descriptors: tuple[int, ...] = (), **request: Any) -> Any:
        socket.send_fds(self._line, [json.dumps(request).encode()], descriptors)
        return json.loads(self._line.recv(100))


find_driver = lru_cache(maxsize=2)(Driver)


class Driven:
    """A command of a user, as `subprocess.Popen` shows it, as far as tests look."""

    def __init__(self, user: User, **request: Any) -> None:
        self._driver = find_driver(user)
        (given, stdin), (stdout, output), (stderr, errors) = os.pipe(), os.pipe(), os.pipe()
        self.pid: int = self._driver.ask((given, output, errors), **request)
        for descriptor in (given, output, errors):
            os.close(descriptor)
        self.stdin, self.stdout, self.stderr = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._driver.ask(poll=self.pid)
        return self.returncode

    def wait(self, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < deadline, "the command has not ended"
            time.sleep(0.002)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


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
    running: list[Driven] = field(default_factory=list)

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
    ) -> Driven:
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
        environment = {"HOME": str(self.home), "TMPDIR": str(self.scratch), **self.names()}
        process = Driven(self.user, given=given, cwd=str(self.workspace), env=environment)
        self.running.append(process)
        return process

    def run(self, command: str, **given: Any) -> Ran:
        process = self.start(command, **given)
        # The lifeline stays open until it has ended.
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(process.stderr, kept)
            line = process.stdout.read()
            kept.seek(0)
            output = kept.read().decode("utf-8", "replace")
        self.end(process)
        report = Report.parse(line)
        assert report is not None and report.contained, (line, output)
        return Ran(report.exit_code, output, report.timed_out, report.held)

    def end(self, process: Driven) -> None:
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        process.wait()

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
