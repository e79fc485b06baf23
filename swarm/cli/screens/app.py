"""The application of `swarm top`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import App

from swarm.cli.screens.notices import desktop_notice, find_news
from swarm.cli.screens.pages import FleetScreen, JobScreen
from swarm.client.swarm import Swarm
from swarm.store.outage import REDIS_ERRORS
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.rows import Row

_LOOK_SECONDS = 2.0
_LOOKED_AT_JOBS = 50


class Top(App[None]):
    """Fleet → job → agent: Enter goes in, Escape back.

    Viewing changes nothing; `notices` allows desktop notifications.
    """

    TITLE = "swarm"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [("ctrl+c", "quit", "leave")]
    CSS = (
        "#heading { height: 1; background: $panel; } OptionList, RichLog { height: 1fr; border: none; } "
        "OptionList { text-wrap: nowrap; text-overflow: ellipsis; }"
    )

    def __init__(self, swarm: Swarm, job_id: str | None = None, *, notices: bool = True) -> None:
        super().__init__()
        self.swarm, self._job_id, self._notices = swarm, job_id, notices
        self._known: Mapping[str, Row] | None = None

    def on_mount(self) -> None:
        """Show the fleet, and on top of it a named job."""
        self.push_screen(FleetScreen())
        if self._job_id is not None:
            self.push_screen(JobScreen(self._job_id))
        if self._notices:
            self._look()
            self.set_interval(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self.run_worker(self._find_news, thread=True, group="news", exclusive=True, exit_on_error=False)

    def _find_news(self) -> None:
        store = self.swarm.store
        try:
            rows = LiveReader(store).jobs(store.jobs.part(_LOOKED_AT_JOBS)[0])
        except REDIS_ERRORS:
            return  # the screen reports it
        before, self._known = self._known, rows
        if before is not None and (news := find_news(before, rows)):
            self.call_from_thread(self._tell, news)

    def _tell(self, news: list[str]) -> None:
        self.bell()
        if self._driver is not None:
            self._driver.write(desktop_notice(news))
