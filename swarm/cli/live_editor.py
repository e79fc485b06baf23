"""The live tree, with a line below it for messages to the first agent or a named one."""

from __future__ import annotations

import codecs
import os
import select
import termios
import tty
from collections.abc import Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from swarm.cli.display import Display, TreeDisplay, choose_display
from swarm.cli.output import message_console, one_line, plain, print_note
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import SwarmError
from swarm.core.records import Event

_ENTER, _BACKSPACE = "\r\n", "\x7f\x08"
_CLEAR, _WORD, _LEAVE = "\x15", "\x17", "\x04"
_HINT = "Ctrl-D leaves, and the job continues; a line goes to the first agent, @NAME LINE to another one"


class Editor:
    """A line editor: keys go in, whole lines come out. Pure."""

    def __init__(self) -> None:
        self.text = ""
        self.left = False
        """Whether the person has pressed Ctrl-D on an empty line."""
        self._escape = ""

    def press(self, keys: str) -> list[str]:
        """Process these keys, and return the completed lines that are not blank."""
        lines = []
        for key in keys:
            if self._skip(key):
                continue
            if key in _ENTER:
                lines.append(self.text.strip())
                self.text = ""
            elif key in _BACKSPACE:
                self.text = self.text[:-1]
            elif key == _CLEAR:
                self.text = ""
            elif key == _WORD:
                self.text = self.text.rstrip().rpartition(" ")[0]
            elif key == _LEAVE:
                self.left = self.left or not self.text
            elif key.isprintable():
                self.text += key
        return [line for line in lines if line]

    def _skip(self, key: str) -> bool:
        """Whether the key belongs to the escape sequence of a special key, such as an arrow."""
        if self._escape:
            # A sequence is ESC and one character; after a bracket or O, it ends at a letter or tilde.
            self._escape += key
            over = len(self._escape) > 2 and (key.isalpha() or key == "~")
            if over or (len(self._escape) == 2 and key not in "[O"):
                self._escape = ""
            return True
        if key == "\x1b":
            self._escape = key
            return True
        return False


class KeyReader:
    """Keys pressed on a terminal, read one by one without echo while it is held."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal.fileno()
        self._before: list[Any] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def hold(self) -> None:
        """Read keys one by one from now on, without echo; Ctrl-C still interrupts."""
        if self._before is None and self._in_foreground():
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSADRAIN)

    def release(self) -> None:
        """Restore the terminal."""
        before, self._before = self._before, None
        if before is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)

    def read(self) -> str:
        """Return the keys pressed since the last call; empty if there are none or the terminal is not held."""
        if self._before is None or not select.select([self._terminal], [], [], 0)[0]:
            return ""
        return self._decoder.decode(os.read(self._terminal, 4_096))

    def _in_foreground(self) -> bool:
        """Whether the command may change its terminal; one in the background would be stopped."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False


class Left(BaseException):
    """The person has left the job, which continues."""


class TalkingDisplay(TreeDisplay):
    """The tree, with the input line below it."""

    def __init__(self, swarm: Swarm, job: Job, console: Console, terminal: TextIO) -> None:
        super().__init__(swarm, job, console)
        self._keys, self._editor = KeyReader(terminal), Editor()

    def show(self, events: Sequence[Event]) -> None:
        """Redraw, and take in pressed keys. Raises `Left`."""
        self._keys.hold()
        keys = self._keys.read()
        lines = self._editor.press(keys)
        if self._editor.left:
            raise Left
        for line in lines:
            if line in ("/quit", "/exit"):
                raise Left
            self._console.print(say(self._job, line), soft_wrap=True)
        if keys:
            self._drawn_at = 0.0  # show typed text at once
        super().show(events)

    def pause(self) -> None:
        """Erase the tree, and restore the terminal."""
        super().pause()
        self._keys.release()

    def picture(self, *, live: bool) -> RenderableType:
        """Draw the tree with the input line below it."""
        tree = super().picture(live=live)
        return Group(tree, draw_typed(self._editor.text, self._console.width)) if live else tree

    def _room(self) -> int:
        return max(3, super()._room() - 1)


def draw_typed(typed: str, width: int) -> Text:
    """Draw the end of the typed line that fits, or a hint if it is empty."""
    room, text = width - 3, plain(typed)
    while cell_len(text) > room:
        text = text[1:]
    line = Text("› ", style="bold", no_wrap=True)
    return line.append(text, style="not bold") if text else line.append(one_line(_HINT, room), style="not bold dim")


def say(job: Job, line: str) -> str:
    """Send a line, and return the outcome. `@NAME LINE` goes to the agent of that name or id."""
    to, text = "root", line
    if line.startswith("@"):
        to, _, text = line[1:].partition(" ")
    if not text.strip():
        return f"say something to {to}: @{to} LINE"
    try:
        job.send(to, text)
    except SwarmError as error:
        return f"not sent: {error}"
    return f"you to {to}: {one_line(text, 1_000)}"


def read_line(terminal: TextIO, prompt: str) -> str | None:
    """Read a non-blank line from an unheld terminal; None at the end of the input."""
    while True:
        print_note(prompt)
        line = terminal.readline()
        if not line:
            return None
        if line.strip():
            return line.strip()


def choose_talking(swarm: Swarm, job: Job, terminal: TextIO | None, *, quiet: bool) -> Display:
    """Choose the tree with an input line on a terminal, else the display of `swarm run`."""
    console = message_console()
    if terminal is None or quiet or not console.is_terminal or console.is_dumb_terminal:
        return choose_display(swarm, job, quiet=quiet)
    return TalkingDisplay(swarm, job, console, terminal)
