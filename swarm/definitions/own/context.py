"""What a function is told of the call that it carries out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swarm.core.errors import ToolStopped


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The call that a function carries out: ask for it by a parameter of this type, which the model does not see."""

    tool: str
    """The tool's name."""
    agent_id: str
    """The agent whose call it is."""
    job_id: str
    """The job that the agent belongs to."""
    depth: int = 0
    """Of the agent in its job's tree; the root is 0."""
    workspace: Path
    """The folder that the agent works in."""
    read_only: bool = False
    """The agent may change nothing."""
    idempotency_key: str
    """The same however often this call is delivered, and no other call's: give it to whatever must happen once."""
    _tell: Callable[[str], None] = lambda line: None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def cancelled(self) -> bool:
        """Whether the call must end now: the agent was cancelled, or the call's time is over."""
        return self._stopped.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait for so long. Raises `ToolStopped` as soon as the call must end."""
        if self._stopped.wait(seconds):
            raise ToolStopped(f"{self.tool} was told to stop")

    def progress(self, line: str) -> None:
        """Say what is being done, in a line that people see in the tree, on the page and while they follow the job."""
        self._tell(line)
