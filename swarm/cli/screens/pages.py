"""The three screens of `swarm top`: jobs of the fleet, agents of a job, history of an agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Console
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, RichLog, Static

from swarm.cli.output import one_line
from swarm.cli.screens.lines import agent_lines, job_line, sort_jobs, sum_up_fleet
from swarm.cli.screens.list_screen import REFRESH_SECONDS, ListScreen
from swarm.cli.transcript import TranscriptPrinter
from swarm.cli.tree_fold import sum_money
from swarm.streaming.live.reader import LiveReader, WatchedJob
from swarm.streaming.live.rows import Row

_JOBS = 200


class FleetScreen(ListScreen):
    """All jobs, the ones with questions first."""

    BINDINGS: ClassVar = [("slash", "filter", "filter"), ("escape", "clear", "")]

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Row] = {}
        self._words = ""

    def load(self) -> Callable[[], None]:
        """Load the newest jobs, the newest open ones, and the workers."""
        store = self.swarm.store
        ids = dict.fromkeys([*store.jobs.part(_JOBS)[0], *store.jobs.part(_JOBS, state="running")[0]])
        rows, workers = LiveReader(store).jobs(list(ids)), len(store.fleet.workers())
        summed = sum_up_fleet(list(rows.values()), workers, is_full=bool(store.fleet.full()))
        return lambda: self._show(rows, summed)

    def _show(self, rows: dict[str, Row], summed: str) -> None:
        self._rows, now = rows, time.time()
        lines = [(row["id"], job_line(row, now)) for row in sort_jobs(rows, self._words)]
        words = f" · /{self._words}" if self._words else ""
        self.show(summed + words, lines)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the selected job."""
        self.app.push_screen(JobScreen(str(event.option.id)))

    def job_of(self, chosen: str) -> str:
        """The selected job itself."""
        return chosen

    def count_below(self, chosen: str) -> str:
        """The number of the job's agents."""
        return f"{self._rows[chosen]['agents']} agents"

    def action_filter(self) -> None:
        """Ask for words to filter jobs by."""
        line = Input(value=self._words, placeholder="words of the title, id or state", id="filter")
        self.mount(line, before="#list")
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the typed filter."""
        self._words = event.value.strip()
        event.input.remove()
        self.query_one(OptionList).focus()

    def action_clear(self) -> None:
        """Show all jobs again."""
        self._words = ""
        self.query("#filter").remove()
        self.query_one(OptionList).focus()


class JobScreen(ListScreen):
    """A job's tree of agents."""

    BINDINGS: ClassVar = [("escape", "app.pop_screen", "back")]

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self._job_id = job_id
        self._seen: WatchedJob | None = None

    def load(self) -> Callable[[], None]:
        """Load the whole tree once, then its changes."""
        if self._seen is None:
            self._seen = WatchedJob(self.swarm.store, self._job_id)
        now = self._seen.look()
        job, asking = now.job, {one.agent_id: one for one in now.questions if not one.to}
        cost = "rehearsed" if job["rehearsed"] else sum_money([job])
        told = f"{self._job_id} · {job['state'].replace('_', ' ')} · {len(now.agents)} agents · {cost}"
        lines = agent_lines(list(now.agents.values()), asking, time.time())
        return lambda: self.show(f"{told} · {one_line(job['title'], 120)}", lines)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the selected agent."""
        self.app.push_screen(AgentScreen(str(event.option.id)))

    def job_of(self, chosen: str) -> str:
        """The job of this screen."""
        return self._job_id

    def count_below(self, chosen: str) -> str:
        """The number of agents in the selected branch."""
        ended = {chosen}
        for row in self._seen.agents if self._seen else ():
            if row["parent_id"] in ended:
                ended.add(row["id"])
        return f"{len(ended)} agents" if len(ended) > 1 else "1 agent"


class AgentScreen(Screen[None]):
    """An agent's transcript, updated live."""

    BINDINGS: ClassVar = [("escape", "app.pop_screen", "back"), ("q", "app.quit", "leave")]

    def __init__(self, agent_id: str) -> None:
        super().__init__()
        self._agent_id, self._told, self._loading = agent_id, 0, False
        self._printer: TranscriptPrinter | None = None

    def compose(self) -> ComposeResult:
        """Show the heading and the transcript."""
        yield Static(self._agent_id, id="heading", markup=False)
        yield RichLog(id="history", wrap=True, markup=False, highlight=False)
        yield Footer()

    def on_mount(self) -> None:
        """Start reading the journal."""
        self.query_one(RichLog).focus()
        self._printer = TranscriptPrinter(_Writing(self.query_one(RichLog)), full=False)
        self._refresh()
        self.set_interval(REFRESH_SECONDS, self._refresh)

    def _refresh(self) -> None:
        if not self._loading:
            self._loading = True
            self.run_worker(self._load, thread=True, group="load", exit_on_error=False)

    def _load(self) -> None:
        swarm: Any = self.app.swarm  # type: ignore[attr-defined]
        try:
            entries = list(swarm.store.journals.read(self._agent_id, self._told))
            self._told += len(entries)
            if entries and self._printer is not None:
                self.app.call_from_thread(self._printer.print, entries)
        finally:
            self._loading = False


class _Writing(Console):
    """A console that writes into a log widget."""

    def __init__(self, history: RichLog) -> None:
        super().__init__()
        self._history = history

    def print(self, *objects: Any, **options: Any) -> None:
        """Append lines to the log."""
        for each in objects:
            self._history.write(each)
