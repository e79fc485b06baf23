"""A job as lines of JSON on stdout, while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.cli.output import print_json_text
from swarm.cli.watching import Display
from swarm.client import Job, Swarm
from swarm.records import Event
from swarm.streaming import Teller


class StreamDisplay(Display):
    """Prints each event of the stream as it happens; its schema is `swarm.streaming.events`."""

    def __init__(self, swarm: Swarm, job: Job) -> None:
        self._teller = Teller(swarm, job)

    def show(self, events: Sequence[Event]) -> None:
        """Print what these events tell."""
        for event in events:
            for told in self._teller.tell(event):
                print_json_text(told.model_dump_json())
