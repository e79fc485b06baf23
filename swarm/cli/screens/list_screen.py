"""Base of the screens of `swarm top`: a list that a thread keeps up to date, and actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from swarm.cli.output import one_line
from swarm.cli.screens.dialogs import Answer, ConfirmDialog, LineDialog, QuestionDialog
from swarm.client.swarm import Swarm
from swarm.core.errors import SwarmError
from swarm.store.outage import REDIS_ERRORS
from swarm.store.questions import Question

if TYPE_CHECKING:
    from swarm.cli.screens.app import Top

REFRESH_SECONDS = 0.5


class ListScreen(Screen[None]):
    """A screen with a heading and a list; each line stands for something with an id."""

    BINDINGS: ClassVar = [
        ("j", "move(1)", ""),
        ("k", "move(-1)", ""),
        ("n", "next_question", "next question"),
        ("m", "message", "message"),
        ("c", "cancel", "cancel"),
        ("q", "app.quit", "leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Text] = {}
        self._loading = False

    @property
    def swarm(self) -> Swarm:
        """The client of the application."""
        return cast("Top", self.app).swarm

    def compose(self) -> ComposeResult:
        """Show the heading, the list and the keys."""
        yield Static(id="heading")
        yield OptionList(id="list")
        yield Footer()

    def on_mount(self) -> None:
        """Start loading; the list gets the keys."""
        self.query_one(OptionList).focus()
        self._refresh()
        self.set_interval(REFRESH_SECONDS, self._refresh)

    def load(self) -> Callable[[], None]:
        """Fetch the data, on a thread; returns a function that shows it."""
        raise NotImplementedError

    def _refresh(self) -> None:
        if not self._loading and self.is_current:
            self._loading = True
            self.run_worker(self._load, thread=True, group="load", exit_on_error=False)

    def _load(self) -> None:
        try:
            show = self.load()
        except (SwarmError, *REDIS_ERRORS) as error:
            told = str(error)
            self.app.call_from_thread(self._tell, told)
        else:
            self.app.call_from_thread(show)
        finally:
            self._loading = False

    def _tell(self, what: str) -> None:
        self.query_one("#heading", Static).update(Text(one_line(what, 300), style="red"))

    def show(self, heading: str, lines: Sequence[tuple[str, Text]]) -> None:
        """Show these lines, without touching unchanged ones or the selection."""
        self.query_one("#heading", Static).update(Text(heading, style="bold"))
        listed = self.query_one(OptionList)
        if [key for key, _ in lines] == list(self._shown):
            for at, (key, line) in enumerate(lines):
                if line != self._shown[key]:
                    listed.replace_option_prompt_at_index(at, line)
        else:
            chosen = self.chosen
            listed.clear_options()
            listed.add_options([Option(line, id=key, disabled=key.isdigit()) for key, line in lines])
            keys = [key for key, _ in lines]
            if keys:
                listed.highlighted = keys.index(chosen) if chosen in keys else 0
        self._shown = dict(lines)

    @property
    def chosen(self) -> str | None:
        """The id of the selected line."""
        listed = self.query_one(OptionList)
        if listed.highlighted is None or listed.highlighted >= listed.option_count:
            return None
        return listed.get_option_at_index(listed.highlighted).id

    # -- actions -----------------------------------------------------------------------------------------------

    def job_of(self, chosen: str) -> str:
        """The job that the selected line belongs to."""
        raise NotImplementedError

    def count_below(self, chosen: str) -> str:
        """The agents that cancelling the selected line would end, in words."""
        raise NotImplementedError

    def action_move(self, by: int) -> None:
        """Move up or down, by the keys of vi."""
        listed = self.query_one(OptionList)
        (listed.action_cursor_down if by > 0 else listed.action_cursor_up)()

    def action_message(self) -> None:
        """Write to the selected agent, or to a job's first."""
        if (chosen := self.chosen) is None:
            return

        def send(text: str | None) -> None:
            if text:
                job, to = self.job_of(chosen), chosen if chosen.startswith("agent-") else "root"
                self.act(lambda: self.swarm.job(job).send(to, text), f"sent to {to}")

        self.app.push_screen(LineDialog(f"To {chosen}:"), send)

    def action_cancel(self) -> None:
        """Cancel the selection, after the person has confirmed its size."""
        if (chosen := self.chosen) is None:
            return

        def cancel(sure: bool | None) -> None:
            if sure:
                self.act(lambda: self._cancel(chosen), f"cancelled {chosen}")

        self.app.push_screen(ConfirmDialog(f"Cancel {chosen} ({self.count_below(chosen)})?"), cancel)

    def _cancel(self, chosen: str) -> None:
        if chosen.startswith("job-"):
            self.swarm.job(chosen).cancel()
        else:
            self.swarm.cancel(chosen)

    def action_next_question(self) -> None:
        """Show the question that has been open longest."""
        self.run_worker(self._find_question, thread=True, group="question", exit_on_error=False)

    def _find_question(self) -> None:
        waiting = [question for question in self.swarm.questions.open() if not question.to]
        self.app.call_from_thread(self._ask, waiting[0] if waiting else None)

    def _ask(self, question: Question | None) -> None:
        if question is None:
            self.notify("there is no open question")
            return

        def answer(given: Answer | None) -> None:
            if given is not None:
                words, more = given
                self.act(lambda: self.swarm.answer(question.id, words, **more), f"answered {question.id}")

        self.app.push_screen(QuestionDialog(question), answer)

    def act(self, do: Callable[[], Any], told: str) -> None:
        """Do something on a thread, and report its outcome."""

        def work() -> None:
            try:
                do()
            except (SwarmError, *REDIS_ERRORS) as error:
                self.app.call_from_thread(self.notify, str(error), severity="error", markup=False)
            else:
                self.app.call_from_thread(self.notify, told, markup=False)

        self.run_worker(work, thread=True, group="act", exit_on_error=False)
