"""A command on a real (pseudo-)terminal: what it shows there, and keys for it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path
from typing import Protocol

from tests.e2e.cli_world import PATIENCE_SECONDS, ROOT

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Commanding(Protocol):
    """Where the command runs: its command line, and its environment."""

    def command(self, *arguments: str) -> list[str]: ...

    def environment(self) -> dict[str, str]: ...


class Terminal:
    """A command on a terminal of so many lines and columns, in this folder."""

    def __init__(
        self, world: Commanding, *arguments: str, size: tuple[int, int] = (24, 100), folder: Path = ROOT
    ) -> None:
        command, environment = world.command(*arguments), {**world.environment(), "TERM": "xterm-256color"}
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, environment)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._text = ""
        self.raw = b""
        """All that was shown, escapes included."""
        self._seen = 0

    def wait_for(self, text: str) -> str:
        """Wait until the terminal shows `text` after what was waited for last; what it showed before that."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while text not in self._text[self._seen :]:
            assert time.monotonic() < give_up, f"{text!r} was never shown:\n{self._text}"
            assert self._read(), f"it ended without showing {text!r}:\n{self._text}"
        end = self._text.index(text, self._seen) + len(text)
        shown, self._seen = self._text[self._seen : end], end
        return shown

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._descriptor, keys.encode())

    def finish(self) -> tuple[int, str]:
        """The exit code, and all that was shown."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < give_up, f"it never ended:\n{self._text}"
        _, status = os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status), self._text

    def hang_up(self) -> None:
        """End a command that a failed test has left behind."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._descriptor)
        except (ProcessLookupError, ChildProcessError, OSError):
            pass

    def _read(self) -> bool:
        readable, _, _ = select.select([self._descriptor], [], [], 1.0)
        if not readable:
            return True
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # how Linux says that nobody is at the other end
            return False
        self.raw += data
        self._text += _ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)
