"""The application of `swarm top`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App

from swarm.cli.screens.pages import FleetScreen, JobScreen
from swarm.client import Swarm


class Top(App[None]):
    """Fleet → job → agent: Enter goes in, Escape back. Looking never acts."""

    TITLE = "swarm"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [("ctrl+c", "quit", "leave")]
    CSS = "#heading { height: 1; background: $panel; } OptionList, RichLog { height: 1fr; border: none; }"

    def __init__(self, swarm: Swarm, job_id: str | None = None) -> None:
        super().__init__()
        self.swarm, self._job_id = swarm, job_id

    def on_mount(self) -> None:
        """The fleet, and the job on top of it if one was named."""
        self.push_screen(FleetScreen())
        if self._job_id is not None:
            self.push_screen(JobScreen(self._job_id))
