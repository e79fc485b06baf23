"""Displays of a running job.

Events arrive on their own thread, so signals and redraws never wait for Redis.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Console, RenderableType
from rich.live import Live

from swarm.cli.event_lines import say_event
from swarm.cli.output import (
    message_console,
    print_json_text,
    print_note,
)
from swarm.cli.patience import SilenceWatch, describe_waiting
from swarm.cli.prompter import Prompter
from swarm.cli.question_view import show_heading
from swarm.cli.tree_view import render_tree
from swarm.client.event_feed import EventFeed
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import UnknownAgent
from swarm.core.ids import root_agent_id
from swarm.core.records import Event, JobView
from swarm.streaming.events import AgentEnded
from swarm.streaming.live.reader import LiveReader, WatchedJob

_TAKE_SECONDS = 0.125
"""Seconds to wait for an event before considering a redraw, so at most eight redraws a second."""
_FEED_SECONDS = 0.5
_TICK_SECONDS = 0.25
"""Seconds between clock updates while nothing happens."""
_IDLE_CHECK_SECONDS = 3.0
_ABOVE = frozenset({"message", "bounded", "switched", "server", "held", "lacking"})
"""Event kinds shown above the tree."""
_WORTH_A_LINE = _ABOVE | {
    "note",
    *("pushed", "pull_request"),
    *("job_started", "spawned", "ended", "rescued", "resumed", "board", "denied", "hooked", "verdict", "summary"),
}


class Display:
    """Base of the displays of a running job; this one shows nothing."""

    def show(self, events: Sequence[Event]) -> None:
        """Handle new events; an empty list means that time has passed."""

    def pause(self) -> None:
        """Release the terminal until the next `show`."""

    def close(self) -> None:
        """Draw the last state and leave it on the screen."""


class Feed:
    """The events of one job, fetched by a thread inside the `with` block."""

    def __init__(self, job: Job, after: str) -> None:
        self._job, self._after = job, after
        self._arrived: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._fetch, name="swarm-feed", daemon=True)
        self.ended = False

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._leave.set()
        # Redis may be stopped next; a thread that still asks would try to reconnect.
        self._thread.join(2 * _FEED_SECONDS)

    def take(self, seconds: float) -> list[Event]:
        """Wait up to `seconds`, then return all new events. Raises the thread's exception."""
        found: list[Event] = []
        try:
            item = self._arrived.get(timeout=seconds)
            while True:
                if item is None:
                    self.ended = True
                    return found
                if isinstance(item, BaseException):
                    raise item
                found.append(item)
                item = self._arrived.get_nowait()
        except queue.Empty:
            return found

    def _fetch(self) -> None:
        try:
            for event in self._job.follow(after=self._after, idle_seconds=_FEED_SECONDS):
                if self._leave.is_set():
                    return
                if event is not None:
                    self._arrived.put(event)
            self._arrived.put(None)
        except Exception as error:
            self._arrived.put(error)


def watch(
    job: Job,
    display: Display,
    check: Callable[[], None],
    asker: Prompter | None = None,
    *,
    after: str = "0",
    hear: Callable[[Sequence[Event]], None] | None = None,
) -> JobView:
    """Show the job's events after `after` until it ends.

    `check` is called now and then while nothing happens, and raises if nothing will; `hear` gets each event at once. While `asker` asks,
    the display pauses and shows later events afterwards.
    """
    checked = time.monotonic()
    unseen: list[Event] = []
    with Feed(job, after) as feed:
        while not feed.ended:
            events = feed.take(_TAKE_SECONDS)
            unseen += events
            if hear is not None:
                hear(events)
            if asker is not None and asker.take_in(events):
                display.pause()
                asker.go_on()
            else:
                display.show(unseen)
                unseen = []
            if events:
                checked = time.monotonic()
            elif time.monotonic() - checked > _IDLE_CHECK_SECONDS:
                checked = time.monotonic()
                check()
    return job.view()


def choose_display(swarm: Swarm, job: Job, *, quiet: bool) -> Display:
    """A live tree on a terminal, one line per event elsewhere, or nothing if `quiet`."""
    if quiet:
        return Display()
    console = message_console()
    return (
        TreeDisplay(swarm, job, console)
        if console.is_terminal and not console.is_dumb_terminal
        else LineDisplay(swarm, job)
    )


class TreeDisplay(Display):
    """A tree, redrawn in place."""

    def __init__(self, swarm: Swarm, job: Job, console: Console) -> None:
        self._job, self._console = job, console
        self._live: Live | None = None
        self._seen, self._lines = WatchedJob(swarm.store, job.id), LineDisplay(swarm, job)
        self._drawn_at = 0.0

    def show(self, events: Sequence[Event]) -> None:
        """Redraw after new events or a clock tick; messages to the person stay above the tree."""
        for event in events:
            above = event.kind in _ABOVE or event.fields.get("sort") == "log"
            if above and (line := self._lines.describe(event)):
                self._console.print(line, soft_wrap=True)
        if events:
            self._look(events)
        if events or self._live is None or time.monotonic() - self._drawn_at >= _TICK_SECONDS:
            self._draw()

    def pause(self) -> None:
        """Erase the tree."""
        if self._live is not None:
            self._live.transient = True
            self._live.stop()
            self._live = None

    def close(self) -> None:
        """Draw the final tree and leave it on the screen."""
        self._look(())
        self.pause()
        self._console.print(self.picture(live=False))

    def picture(self, *, live: bool) -> RenderableType:
        """Draw the tree in its last known state."""
        return render_tree(self._seen.agents, self._console, room=self._room(), live=live, job_id=self._job.id)

    def _look(self, events: Sequence[Event]) -> None:
        with contextlib.suppress(UnknownAgent):  # the event feed reports it
            self._seen.look(events)

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        self._live.update(self.picture(live=True), refresh=True)
        self._drawn_at = time.monotonic()

    def _room(self) -> int:
        return max(3, self._console.height - 2)


class LineDisplay(Display):
    """Writes one line when an agent starts or ends, writes to the person or asks, for use in logs.

    After a long silence, a line explains the wait.
    """

    def __init__(self, swarm: Swarm, job: Job) -> None:
        self._swarm, self._job, self._notifier = swarm, job, EventFeed(swarm, job)
        self._began: float | None = None
        self._silence = SilenceWatch()

    def show(self, events: Sequence[Event]) -> None:
        """Write a line for each event worth one."""
        for event in events:
            described = self.describe(event)
            if not described:
                continue
            self._began = event.at if self._began is None else self._began
            self._say(event.at, described)
        if self._silence.is_long():
            self._say(time.time(), describe_waiting(LiveReader(self._swarm.store).agents_of(self._job.id)))

    def describe(self, event: Event) -> str:
        """Agent and event on one line; empty for an event not worth a line."""
        if event.kind == "question":
            return describe_question(self._swarm, event)
        if event.kind not in _WORTH_A_LINE or (event.kind == "message" and event.fields.get("to") != "user"):
            return ""
        told = self._notifier.happened(event)
        if isinstance(told, AgentEnded) and told.agent_id == root_agent_id(self._job.id):
            told = told.model_copy(update={"reason": ""})  # the note after the last line gives it
        return "" if told is None else say_event(told)

    def _say(self, at: float, what: str) -> None:
        self._silence.break_off()
        print_note(f"[{max(0.0, at - (self._began or at)):7.1f}s] {what}")


def describe_question(swarm: Swarm, event: Event) -> str:
    """A question to the person on one line; empty for a closed one or another agent's."""
    question = swarm.questions.find(event.fields["question"])
    if question is None or question.to or question.state != "open":
        return ""
    return f"{show_heading(question)}; `swarm questions {question.id}` shows it"


class StreamDisplay(Display):
    """Prints each stream event as JSON (schema: `swarm.streaming.events`), and explains a long silence on stderr."""

    def __init__(self, swarm: Swarm, job: Job, *, quiet: bool = False) -> None:
        self._swarm, self._job = swarm, job
        self._notifier, self._quiet = EventFeed(swarm, job), quiet
        self._silence = SilenceWatch()

    def show(self, events: Sequence[Event]) -> None:
        """Print the stream events that these events produce."""
        for event in events:
            for told in self._notifier.tell(event):
                print_json_text(told.model_dump_json())
                self._silence.break_off()
        if not self._quiet and self._silence.is_long():
            print_note(describe_waiting(LiveReader(self._swarm.store).agents_of(self._job.id)))
