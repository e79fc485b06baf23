"""Pictures of terminals: commands on a real one, and `swarm top`, drawn by Rich's own exporter."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

from docs.pictures.jobs import Jobs
from swarm.cli.screens.app import Top
from tests.e2e.cli_world import World
from tests.e2e.terminal import Commanding, Terminal

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_COLOURS = {"brown": "yellow"}
"""Rich's colour names by pyte's."""


@dataclass(frozen=True)
class Run:
    """A command, and the moment of its picture."""

    words: tuple[str, ...]
    until: str = ""
    """Text that triggers the picture; empty: the end of the command."""
    lines: int = 40
    columns: int = 110
    alone: bool = False
    """Run in a separate world, not on the fleet."""


RUNS: dict[str, Callable[[Jobs], Run]] = {
    "terminal-run": lambda jobs: Run(
        ("run", "--rehearse", "team", "Describe this workspace in a short report"), until="report.md", alone=True
    ),
    "terminal-ask": lambda jobs: Run(
        ("run", "--rehearse", "ask", "--mode", "plan", "Greet me"), until="kip?", alone=True
    ),
    "terminal-tree": lambda jobs: Run(("tree", jobs.release.id)),
    "terminal-map": lambda jobs: Run(
        ("map", "Say what {path} is for", "--over", "git ls-files till", "--rehearse", "hello", "-o", "out.jsonl"),
        columns=120,
        alone=True,
    ),
}
TOPS: dict[str, Callable[[Jobs], str | None]] = {
    "top-fleet": lambda jobs: None,
    "top-job": lambda jobs: jobs.release.id,
}
"""Pictures of `swarm top`, on all jobs or in one."""


class _Screen(pyte.Screen):
    """A screen that shows dim text as grey, because pyte has no dim."""

    def select_graphic_rendition(self, *attrs: int, **more: Any) -> None:
        super().select_graphic_rendition(*(90 if each == 2 else each for each in attrs), **more)


def take_terminals(jobs: Jobs, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each picture as SVG, with its file name."""
    for name in names:
        if name in TOPS:
            yield f"{name}.svg", _clean(asyncio.run(_top(jobs, TOPS[name](jobs))))
        else:
            run = RUNS[name](jobs)
            with _world(jobs, run) as world:
                yield f"{name}.svg", _clean(_draw(name, run, _look(world, run, jobs.workspace)))


@contextmanager
def _world(jobs: Jobs, run: Run) -> Iterator[Commanding]:
    home = jobs.fleet.folder / "home"
    if not run.alone:
        yield _OnFleet(jobs)
        return
    world = World(state=jobs.fleet.folder / "own", home=home, workspace=jobs.workspace)
    try:
        yield world
    finally:
        world.clear()


class _OnFleet:
    """Prepare commands that see the fleet."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def command(self, *arguments: str) -> list[str]:
        return World.command(None, *arguments)  # type: ignore[arg-type]

    def environment(self) -> dict[str, str]:
        return {**self._jobs.fleet.environment(), "SWARM_REDIS_URL": self._jobs.fleet.url}


def _look(world: Commanding, run: Run, folder: Path) -> _Screen:
    terminal = Terminal(world, *run.words, size=(run.lines, run.columns), folder=folder)
    try:
        if run.until:
            terminal.wait_for(run.until)
        else:
            terminal.finish()
    finally:
        terminal.hang_up()
    screen = _Screen(run.columns, run.lines)
    pyte.ByteStream(screen).feed(terminal.raw)
    return screen


def _draw(name: str, run: Run, screen: _Screen) -> str:
    words = ["swarm", *(f'"{word}"' if " " in word else word for word in run.words)]
    lines = [Text.assemble(("$ ", "green"), (" ".join(words), "bold"))]
    for number in range(screen.lines):
        line = Text()
        cells = [screen.buffer[number][column] for column in range(screen.columns)]
        for style, alike in groupby(cells, _style):
            line.append("".join(char.data for char in alike), style)
        line.rstrip()
        lines.append(line)
    while not lines[-1]:
        lines.pop()
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, soft_wrap=True)
    return console.export_svg(title=f"swarm {run.words[0]}", unique_id=name)


def _style(char: Any) -> Style:
    return Style(
        color=_colour(char.fg), bgcolor=_colour(char.bg), bold=char.bold, italic=char.italics, reverse=char.reverse
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return _COLOURS.get(name, name.replace("bright", "bright_"))


async def _top(jobs: Jobs, job_id: str | None) -> str:
    top = Top(jobs.fleet.swarm, job_id)
    async with top.run_test(size=(110, 18)) as pilot:
        for _ in range(20):
            await pilot.pause(0.1)
        return top.export_screenshot(title="swarm top")


def _clean(svg: str) -> bytes:
    """Remove fonts that would be downloaded; the reader's own are used."""
    return _FONTS.sub("", svg).replace("&#160;", "\N{NO-BREAK SPACE}").encode()
