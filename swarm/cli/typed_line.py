"""A line that somebody types below a picture that is drawn anew all the time: the terminal shows no key by itself meanwhile."""

from __future__ import annotations

import codecs
import os
import select
import termios
import tty
from typing import Any, TextIO

_ENTER, _BACKSPACE = "\r\n", "\x7f\x08"
_CLEAR, _WORD, _LEAVE = "\x15", "\x17", "\x04"


class Editor:
    """The line itself: keys go in, whole lines come out. Pure."""

    def __init__(self) -> None:
        self.text = ""
        self.left = False
        """Whether the person has pressed Ctrl-D on an empty line."""
        self._escape = ""

    def press(self, keys: str) -> list[str]:
        """Take these keys in; returns the lines that were ended by them, without those that are blank."""
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
        """Whether the key is part of what an arrow or another special key sends."""
        if self._escape:
            # ESC, one character; after a bracket or an O, up to a letter or a tilde.
            self._escape += key
            over = len(self._escape) > 2 and (key.isalpha() or key == "~")
            if over or (len(self._escape) == 2 and key not in "[O"):
                self._escape = ""
            return True
        if key == "\x1b":
            self._escape = key
            return True
        return False


class Keys:
    """The keys that are pressed on a terminal, one by one and unseen, while it is held."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal.fileno()
        self._before: list[Any] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def hold(self) -> None:
        """From now on keys come one by one, and the terminal does not show them; Ctrl-C stays what it is."""
        if self._before is None and self._in_foreground():
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSADRAIN)

    def release(self) -> None:
        """The terminal is as it was."""
        before, self._before = self._before, None
        if before is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)

    def read(self) -> str:
        """What has been pressed since; empty if nothing was, or the terminal is not held."""
        if self._before is None or not select.select([self._terminal], [], [], 0)[0]:
            return ""
        return self._decoder.decode(os.read(self._terminal, 4_096))

    def _in_foreground(self) -> bool:
        """A command in the background that changes its terminal is stopped."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False
