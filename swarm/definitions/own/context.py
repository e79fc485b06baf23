"""The context of a call, for the function that carries it out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swarm.core.errors import ToolStopped


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The call that a function carries out. A parameter of this type receives it, and the model does not see that parameter."""

    tool: str
    """The tool's name."""
    agent_id: str
    """The calling agent."""
    job_id: str
    """The job that the agent belongs to."""
    depth: int = 0
    """The agent's depth in its job's tree; the root is 0."""
    workspace: Path
    """The folder that the agent works in."""
    read_only: bool = False
    """The agent must not change anything."""
    idempotency_key: str
    """A key that stays the same on redelivery and is unique to this call; pass it to an operation that must happen once."""
    _tell: Callable[[str], None] = lambda line: None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def cancelled(self) -> bool:
        """Report whether the call must end now, because the agent was cancelled or the time limit has passed."""
        return self._stopped.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds. Raises `ToolStopped` as soon as the call must end."""
        if self._stopped.wait(seconds):
            raise ToolStopped(f"{self.tool} must stop")

    def progress(self, line: str) -> None:
        """Report progress in one line, which people see in the tree, on the page and while they follow the job."""
        self._tell(line)
