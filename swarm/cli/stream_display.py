"""A job as lines of JSON on stdout, while it runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from swarm.cli.output import print_json_text, print_note
from swarm.cli.patience import SILENCE_SECONDS, describe_waiting
from swarm.cli.watching import Display
from swarm.client import Job, Swarm
from swarm.records import Event
from swarm.streaming import Teller


class StreamDisplay(Display):
    """Prints each event of the stream as it happens; its schema is `swarm.streaming.events`. A long silence is explained on stderr."""

    def __init__(self, swarm: Swarm, job: Job, *, quiet: bool = False) -> None:
        self._teller, self._job, self._quiet = Teller(swarm, job), job, quiet
        self._said_at = time.monotonic()

    def show(self, events: Sequence[Event]) -> None:
        """Print what these events tell."""
        for event in events:
            for told in self._teller.tell(event):
                print_json_text(told.model_dump_json())
                self._said_at = time.monotonic()
        if not self._quiet and time.monotonic() - self._said_at >= SILENCE_SECONDS:
            self._said_at = time.monotonic()
            print_note(describe_waiting(self._job.agents()))
