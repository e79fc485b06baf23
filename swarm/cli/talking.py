"""The live tree with a line to type below it: what is typed goes to the job's first agent, or to the one that is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from swarm.cli.output import message_console, one_line, plain, print_note
from swarm.cli.typed_line import Editor, Keys
from swarm.cli.watching import Display, TreeDisplay, choose_display
from swarm.client import Job, Swarm
from swarm.errors import SwarmError
from swarm.records import Event

_HINT = "Ctrl-D leaves, and the job goes on; a line goes to the first agent, @NAME LINE to another one"


class Left(BaseException):
    """The person has left the job, which goes on."""


class TalkingDisplay(TreeDisplay):
    """The tree, and below it what is being typed."""

    def __init__(self, job: Job, console: Console, terminal: TextIO) -> None:
        super().__init__(job, console)
        self._keys, self._editor = Keys(terminal), Editor()

    def show(self, events: Sequence[Event]) -> None:
        """As the tree; keys that were pressed are taken in. Raises `Left`."""
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
            self._drawn_at = 0.0  # whoever types sees it at once
        super().show(events)

    def pause(self) -> None:
        """Wipe the tree, and give the terminal back as it was."""
        super().pause()
        self._keys.release()

    def picture(self, *, live: bool) -> RenderableType:
        """The tree with the line below it."""
        tree = super().picture(live=live)
        return Group(tree, draw_typed(self._editor.text, self._console.width)) if live else tree

    def _room(self) -> int:
        return max(3, super()._room() - 1)


def draw_typed(typed: str, width: int) -> Text:
    """The line that is being typed, its end if there is no room for all of it; or what can be typed."""
    room, text = width - 3, plain(typed)
    while cell_len(text) > room:
        text = text[1:]
    line = Text("› ", style="bold", no_wrap=True)
    return line.append(text, style="not bold") if text else line.append(one_line(_HINT, room), style="not bold dim")


def say(job: Job, line: str) -> str:
    """Send a line; returns what became of it. One that begins with @ goes to the agent of that name or id."""
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
    """A line that is not blank, on a terminal as it is; None at the end of the input."""
    while True:
        print_note(prompt)
        line = terminal.readline()
        if not line:
            return None
        if line.strip():
            return line.strip()


def choose_talking(swarm: Swarm, job: Job, terminal: TextIO | None, *, quiet: bool) -> Display:
    """The tree with a line below it where somebody can type, else what `swarm run` shows."""
    console = message_console()
    if terminal is None or quiet or not console.is_terminal or console.is_dumb_terminal:
        return choose_display(swarm, job, quiet=quiet)
    return TalkingDisplay(job, console, terminal)
