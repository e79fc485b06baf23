"""Start a command under the launcher, for a tool call (`run_command`) or beyond it (`start_command`)."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from swarm.core.errors import ConfigurationError, ToolError
from swarm.permissions.sandbox.guard import CommandGuard
from swarm.tools import Confine, ToolContext
from swarm.tools.environment import clean_environment
from swarm.workspace.private import make_private_folder

MARKER = "SWARM_SHELL_ID"
"""Variable set in every process of a command: finds processes that escaped their supervisor."""
MAX_OUTPUT_BYTES = 10 * 1024 * 1024
CHECK_SECONDS = 0.5
_RUN_GIVEN = {"bash": 'eval "exec 20<&-; $(</dev/fd/20)"', "sh": 'eval "$(cat /dev/fd/20)"'}
"""Bash needs no second program for it, which would cost milliseconds in a sandbox."""
_LAUNCHER = Path(__file__).with_name("launcher.py")
_scratch_lock = threading.Lock()
_MOST_ATTEMPTS = 20
"""Attempts to make a folder while another process removes it."""


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended."""

    exit_code: int
    output: bytes
    timed_out: bool = False
    discarded_bytes: int = 0
    held: tuple[str, ...] = ()
    """Changes that programs outside the sandbox would obey, and how each was handled."""


@dataclass(frozen=True)
class Report:
    """The launcher's final report."""

    exit_code: int
    timed_out: bool
    discarded_bytes: int
    contained: bool
    held: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: bytes) -> Report | None:
        """None if the launcher died before it could say how the command ended."""
        line, *others = text.split(b"\n")
        held = tuple(other[5:].decode("utf-8", "replace") for other in others if other.startswith(b"held "))
        fields = dict(part.partition("=")[::2] for part in line.decode("ascii", "replace").split())
        try:
            return cls(
                exit_code=int(fields["exit"]),
                timed_out=fields["timed_out"] == "1",
                discarded_bytes=int(fields["discarded"]),
                contained=fields["contained"] == "1",
                held=held,
            )
        except (KeyError, ValueError):
            return None


def scratch_folder(ctx: ToolContext) -> Path:
    """The agent's private temporary folder, made now if it does not exist. Raises `ToolError` if it is another user's."""
    with _scratch_lock:
        if ctx.scratch is None:
            ctx.scratch = Path(tempfile.mkdtemp(prefix="swarm-agent-"))
            return ctx.scratch
        try:
            for folder in (ctx.scratch.parent, ctx.scratch):
                make_private_folder(folder, remedy="set TMPDIR to another folder")
        except ConfigurationError as error:
            raise ToolError(f"no command can be run: {error}") from error
        return ctx.scratch


def new_shell_id() -> str:
    """A name for one command that no other process of this host has."""
    return f"shell_{secrets.token_hex(6)}"


def run_command(
    ctx: ToolContext,
    command: str,
    confine: Confine | None,
    limit_seconds: float,
    *,
    argv: list[str] | None = None,
    given: int | None = None,
    hook_state: Callable[[bytes], None] | None = None,
    overtime_seconds: float = 15.0,
) -> ProcessResult:
    """Run `command` to its end, asking `ctx.check` meanwhile; whatever happens, nothing of it is left running.

    `command` is a shell's text, or input on descriptor 20 of the confined program `argv`; `given` replaces that descriptor.
    `hook_state` now and then receives the output so far.

    `overtime_seconds` is how much longer than its limit a supervisor may take before it counts as stopped by its own
    command.
    """
    shell_id = new_shell_id()
    argv, file = _prepare(ctx, confine, argv)
    with file as output:
        process = _spawn(ctx, command, argv, shell_id, output, limit_seconds=limit_seconds, given=given)
        assert process.stdin and process.stdout
        report = None
        try:
            listen = None if hook_state is None else lambda: hook_state(os.pread(output.fileno(), MAX_OUTPUT_BYTES, 0))
            if _wait_readable(ctx, process.stdout, limit_seconds + overtime_seconds, listen):
                report = Report.parse(process.stdout.read())
        finally:
            # Closing the lifeline makes the launcher kill the remaining processes in every case.
            process.stdin.close()
            process.stdout.close()
            if report is None:
                _end_launcher(process)
            else:
                process.wait()
            if report is None or not report.contained:
                kill_marked(shell_id)
        output.seek(0)
        data = output.read()
    if report is None:
        return ProcessResult(exit_code=137, output=data, held=hold_planted(watch_words(argv)))
    return ProcessResult(report.exit_code, data, report.timed_out, report.discarded_bytes, report.held)


class CommandInput:
    """A command's input. One that reads nothing blocks no writer."""

    def __init__(self) -> None:
        self.end, write = os.pipe()
        """The command's end."""
        self._parts: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._feed, args=(write,), name="command-input", daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> None:
        """Write this next."""
        self._parts.put(data)

    def put_line(self, line: Any) -> None:
        """Write this next, as a line of JSON."""
        self.put(json.dumps(line, ensure_ascii=True).encode() + b"\n")

    def finish(self) -> None:
        """Close it once everything is written."""
        self._parts.put(None)

    def close(self) -> None:
        """Close it, and wait for that; the command should have ended."""
        self.finish()
        self._thread.join(5)

    def _feed(self, write: int) -> None:
        with contextlib.suppress(OSError), open(write, "wb", buffering=0) as file:
            while (data := self._parts.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]


class RunningCommand:
    """A confined command whose output is read while it runs; whatever happens to this process, nothing of it is left running."""

    def __init__(
        self, ctx: ToolContext, argv: list[str], *, given: int, limit_seconds: float, most_bytes: int = MAX_OUTPUT_BYTES
    ) -> None:
        """`given` is its input, as descriptor 20. Raises `ToolError`."""
        self._shell_id, self._argv = new_shell_id(), argv
        read, write = os.pipe()
        with open(write, "wb") as end:
            try:
                self._process = _spawn(
                    ctx,
                    "",
                    argv,
                    self._shell_id,
                    end,
                    limit_seconds=limit_seconds,
                    given=given,
                    most_bytes=most_bytes,
                )
            except ToolError:
                os.close(read)
                raise
        self.output = os.fdopen(read, "rb")
        """The command's output, to the end."""

    def end(self) -> ProcessResult:
        """End it, if it still runs, and return how it ended."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            report = Report.parse(self._process.stdout.read())
        finally:
            self._process.stdout.close()
            _end_launcher(self._process)
        self.output.close()
        if report is None or not report.contained:
            kill_marked(self._shell_id)
        if report is None:
            return ProcessResult(exit_code=137, output=b"", held=hold_planted(watch_words(self._argv)))
        return ProcessResult(report.exit_code, b"", report.timed_out, report.discarded_bytes, report.held)


def _prepare(ctx: ToolContext, confine: Confine | None, argv: list[str] | None) -> tuple[list[str], IO[bytes]]:
    """The program that runs a command, and the file for its output.

    A process that ended the previous run, or paused in it, may be removing the same folder now: then the folder is made again.
    """
    for attempt in range(_MOST_ATTEMPTS):
        try:
            scratch = scratch_folder(ctx)
            return argv or shell_argv(ctx, confine), tempfile.TemporaryFile(dir=scratch)
        except FileNotFoundError:
            if attempt + 1 == _MOST_ATTEMPTS:
                raise
    raise AssertionError("it returned, or raised")


def watch_words(argv: list[str]) -> list[str]:
    """Return what a confined command's supervisor must check, so that another process can do it if it is killed."""
    words = argv[: argv.index("--")] if "--" in argv else []
    return [word for word in words if word.startswith(("look=", "own=", "had="))]


def hold_planted(words: list[str]) -> tuple[str, ...]:
    """Do a killed supervisor's final check; the earlier content of changed files is lost."""
    return tuple(CommandGuard(words).end())


def start_command(ctx: ToolContext, command: str, argv: list[str], shell_id: str, output: Path, report: Path) -> int:
    """Start `command`, which `argv` runs, so that it outlives this call and this process; return its supervisor's process id."""
    with open(output, "wb") as output_file, open(report, "wb") as report_file:
        process = _spawn(ctx, command, argv, shell_id, output_file, report_file)
    # A thread must collect it when it ends, or it remains a zombie as long as this process lives.
    threading.Thread(target=process.wait, name=f"reap-{shell_id}", daemon=True).start()
    return process.pid


def _spawn(
    ctx: ToolContext,
    command: str,
    argv: list[str],
    shell_id: str,
    output: IO[bytes],
    report: IO[bytes] | None = None,
    *,
    limit_seconds: float = 0,
    given: int | None = None,
    most_bytes: int = MAX_OUTPUT_BYTES,
) -> subprocess.Popen[bytes]:
    """Start the launcher; without a file for its report it has pipes, and ends when its input is closed."""
    lifeline = report is None
    environment = clean_environment(os.environ) | {"TMPDIR": str(scratch_folder(ctx))} | ctx.environment
    environment[MARKER] = shell_id
    launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(limit_seconds), str(most_bytes), str(int(lifeline))]
    given = _keep_text(command) if given is None else given
    try:
        return subprocess.Popen(
            [*launch, str(given), shutil.which(argv[0], path=environment.get("PATH")) or argv[0], *argv[1:]],
            stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
            stdout=report or subprocess.PIPE,
            stderr=output,
            cwd=ctx.workspace,
            env=environment,
            start_new_session=True,
            pass_fds=(given,),
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the command could not be started: {error}") from error
    finally:
        os.close(given)


def shell_argv(ctx: ToolContext, confine: Confine | None) -> list[str]:
    """Return the shell that runs the text on descriptor 20, in the agent's sandbox if it has one."""
    shell = _find_shell()
    argv = [shell, "-c", _RUN_GIVEN[os.path.basename(shell)]]
    return argv if confine is None else confine(ctx, argv)


def _keep_text(command: str) -> int:
    """Return a descriptor from which the text can be read."""
    with tempfile.TemporaryFile() if sys.platform != "linux" else open(os.memfd_create("command"), "wb") as file:
        file.write(command.encode("utf-8", "surrogateescape"))
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())


def _find_shell() -> str:
    shell = shutil.which("bash") or shutil.which("sh")
    if shell is None:
        raise ToolError("this host has neither bash nor sh")
    return shell


def _wait_readable(ctx: ToolContext, pipe: IO[bytes], limit_seconds: float, listen: Callable[[], None] | None) -> bool:
    give_up = time.monotonic() + limit_seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not selector.select(CHECK_SECONDS):
            ctx.check()
            if listen is not None:
                listen()
            if time.monotonic() > give_up:
                return False
    return True


def _end_launcher(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(7)
    except subprocess.TimeoutExpired:
        # It was stopped (SIGSTOP) or hangs. Its children are killed too, while their parent still identifies them.
        for child in _children(process.pid):
            with contextlib.suppress(psutil.Error):
                child.kill()
        process.kill()
        process.wait()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def kill_tree(pid: int, shell_id: str, wait_seconds: float = 10.0) -> None:
    """Kill a background command: its processes first, so that the supervisor sees the end and can report it."""
    with contextlib.suppress(psutil.Error):
        supervisor = psutil.Process(pid)
        give_up = time.monotonic() + wait_seconds
        # A starting supervisor has no children yet. After a single look, its later child would survive.
        while supervisor.is_running() and time.monotonic() < give_up:
            for child in _children(pid):
                with contextlib.suppress(psutil.Error):
                    child.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                supervisor.wait(0.05)
        supervisor.kill()
    kill_marked(shell_id)


def kill_marked(shell_id: str, wait_seconds: float = 3.0) -> int:
    """Kill every process whose environment names `shell_id`, until none is left; return their number."""
    killed: set[psutil.Process] = set()
    give_up = time.monotonic() + wait_seconds
    quiet_looks = 0
    # A process that forks or executes at the moment of the look is missed by it, so one quiet look is not enough.
    while quiet_looks < 2 and time.monotonic() < give_up:
        found = [process for process in psutil.process_iter() if has_marker(process, shell_id)]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        killed.update(found)
        quiet_looks = 0 if found else quiet_looks + 1
        time.sleep(0.01)
    psutil.wait_procs(killed, timeout=max(0.0, give_up - time.monotonic()))
    return len(killed)


def has_marker(process: psutil.Process, shell_id: str) -> bool:
    """Whether `process` was started by the command `shell_id`."""
    try:
        return process.environ().get(MARKER) == shell_id
    except (psutil.Error, OSError):
        return False
