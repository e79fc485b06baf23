"""Watch a map: write results as they arrive, show progress on stderr, and print a summary at the end."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from swarm.capabilities.mapping.maps import LineResult, MapView
from swarm.cli.map_output import ResultFile
from swarm.cli.output import message_console, one_line, print_note, show_cost, show_count, show_duration, show_number
from swarm.cli.patience import SilenceWatch
from swarm.client.maps import Map

_LOOK_SECONDS = 0.25
_LISTED = 20


class Progress(Protocol):
    """Shows a map's progress."""

    def show(self, view: MapView) -> None:
        """Show the map's current state."""


def write_results(made: Map, file: ResultFile, progress: Progress, check: Callable[[], None]) -> None:
    """Write results until the map has ended. `check` is called now and then, and raises to give up."""
    looked_at = 0.0
    for result in made.follow(idle_seconds=0.5):
        if result is not None:
            file.write(result)
        if time.monotonic() - looked_at >= _LOOK_SECONDS:
            progress.show(made.view())
            looked_at = time.monotonic()
        if result is None:
            check()
    progress.show(made.view())


@contextlib.contextmanager
def shown_progress(view: MapView, *, quiet: bool) -> Iterator[Progress]:
    """Show a bar on a terminal, or an occasional line elsewhere."""
    console = message_console()
    if quiet:
        yield _Silent()
    elif not console.is_terminal or console.is_dumb_terminal:
        yield _Lines()
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with RichProgress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as bar:
            yield _Bar(bar, view)


class _Silent:
    def show(self, view: MapView) -> None:
        """Show nothing."""


class _Lines:
    def __init__(self) -> None:
        self._silence = SilenceWatch()

    def show(self, view: MapView) -> None:
        """Print a line every ten seconds."""
        if self._silence.is_long():
            print_note(f"{view.id}: {view.completed + view.failed} of {view.total} lines; {describe_now(view)}")


class _Bar:
    def __init__(self, bar: Any, view: MapView) -> None:
        self._bar = bar
        self._task = bar.add_task(describe_now(view), total=view.total, completed=view.completed + view.failed)

    def show(self, view: MapView) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=view.completed + view.failed, description=describe_now(view))


def describe_now(view: MapView) -> str:
    """Running and failed lines, tokens and cost."""
    failed = f", {view.failed} failed" if view.failed else ""
    return f"{view.running} running{failed}, {show_count(view.tokens)} tokens, {show_cost(view.cost_usd, view.unpriced_tokens)}"


def tell_end(made: Map, file: ResultFile) -> int:
    """Print the summary and the failures, and return the exit code."""
    view = made.view()
    lasted = show_duration((view.ended_at or view.created_at) - view.created_at)
    lines = f"{view.completed} of {show_number(view.total, 'line')} done"
    failed = f", {view.failed} failed" if view.failed else ""
    spent = f"{show_count(view.tokens)} tokens, {show_cost(view.cost_usd, view.unpriced_tokens)}, {lasted}"
    print_note(f"swarm: {view.id} {view.state}: {lines}{failed} ({spent})")
    failures = made.failures() if view.failed else []
    for failure in failures[:_LISTED]:
        print_note(f"  {describe_failure(failure)}")
    if len(failures) > _LISTED:
        print_note(f"  … and {len(failures) - _LISTED} more: `swarm maps show {view.id} --failed`")
    if view.state == "stopped":
        print_note(f"its budget is spent; {say_how_it_goes_on(file, '--budget USD')}")
        return 4
    if failures and view.state == "completed":
        print_note(f"to retry failed lines: {say_how_it_goes_on(file, '--retry-failed')}")
    return 0 if view.completed == view.total else 1


def describe_failure(failure: LineResult) -> str:
    """Describe a failed line and its reason."""
    tried = f" after {failure.attempts} attempts" if failure.attempts > 1 else ""
    what = failure.input if isinstance(failure.input, str) else str(failure.input)
    said = f"{failure.state.replace('_', ' ')}{tried} ({failure.reason or 'without a reason'})"
    return f"line {failure.line} ({one_line(what, 60)}): {one_line(said, 200)} [{failure.job_id}]"


def say_how_it_goes_on(file: ResultFile, *more: str) -> str:
    """The command that continues the map."""
    where = ("--output", shlex.quote(str(file.path))) if file.path is not None else ()
    return " ".join(("swarm map --resume", file.map_id, *where, *more))
