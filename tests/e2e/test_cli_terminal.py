"""`swarm run` on a real (pseudo-)terminal: the living tree, and what Ctrl-C asks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from tests.e2e.cli_world import PATIENCE_SECONDS, ROOT, World

SLOW = "TREE depth=1 fanout=2 steps=25 think=700"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command on a terminal of 100 × 24 characters."""

    def __init__(self, world: World, *arguments: str) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            command = world.command(*arguments)
            os.execve(command[0], command, {**world.environment(), "TERM": "xterm-256color"})
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self._text = ""
        self._seen = 0

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows `text` after what was waited for last."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while text not in self._text[self._seen :]:
            assert time.monotonic() < give_up, f"{text!r} was never shown:\n{self._text}"
            assert self._read(), f"it ended without showing {text!r}:\n{self._text}"
        self._seen = self._text.index(text, self._seen) + len(text)

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

    def _read(self) -> bool:
        readable, _, _ = select.select([self._descriptor], [], [], 1.0)
        if not readable:
            return True
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # how Linux says that nobody is at the other end
            return False
        self._text += _ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)


def test_a_terminal_shows_the_tree_and_its_totals(world: World) -> None:
    terminal = Terminal(
        world, "run", "--rehearse", "tree", "-w", str(world.workspace), "TREE depth=1 fanout=2 steps=3 think=300"
    )
    terminal.wait_for("├─")
    code, text = terminal.finish()
    assert code == 0
    assert "tree branch 0" in text
    assert "3 completed" in text
    assert "DONE 3" in text
    assert world.processes() == []


def test_an_interrupt_asks_and_can_be_taken_back_and_can_cancel(world: World) -> None:
    terminal = Terminal(world, "run", "--rehearse", "tree", "-w", str(world.workspace), SLOW)
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("r\n")
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("\x03")  # the same again means it
    code, text = terminal.finish()
    assert code == 130
    assert "cancelled" in text
    assert world.processes() == []
    (job,) = world.read_json("jobs", "--json")
    assert job["state"] == "cancelled"


def test_detaching_leaves_the_job_on_the_queue(world: World) -> None:
    terminal = Terminal(world, "run", "--rehearse", "tree", "-w", str(world.workspace), SLOW)
    terminal.wait_for("tree branch 1")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("d\n")
    code, text = terminal.finish()
    assert code == 130
    assert "detached from job-" in text
    assert world.processes() == []
    (job,) = world.read_json("jobs", "--json")
    assert job["ended_at"] is None
