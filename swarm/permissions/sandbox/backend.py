"""The results of `choose_backend`: a way to confine processes on this host, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm.core.errors import ToolError

Promise = Literal["files", "network", "signals", "processes", "metadata", "settings", "process count"]
PROMISES: dict[Promise, str] = {
    "files": "nothing is read or written outside the agent's files",
    "network": "no network, and no socket of another program",
    "signals": "other agents' processes cannot be signalled or traced",
    "processes": "other agents' processes cannot be seen",
    "metadata": "modes, owners and times of files outside cannot be changed",
    "settings": "a writing agent's shell cannot plant git hooks, git settings or definitions",
    "process count": "the kernel limits how many processes an agent has; else their supervisor ends a command above 1000",
}

WORK_ON_ITSELF = "To let agents work on swarm, give them another checkout of it than the one that runs (`git worktree add ../swarm-work`)"
Wanted = Literal["auto", "bubblewrap", "landlock", "off"]


class CannotConfine(ToolError):
    """The policy of a command cannot be enforced; the message gives the reason."""


@dataclass(frozen=True)
class Backend:
    """A way to confine processes that works on this host, by trial."""

    name: Literal["bubblewrap", "landlock"]
    promises: frozenset[Promise]
    program: str | None = None
    """Path of `bwrap`."""
    abi: int = 0
    """Version of the kernel's Landlock interface; 0 without Landlock."""
    note: str = ""
    """Reason why a better backend was not chosen, and the remedy."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The promises that this backend does not keep, in words."""
        return tuple(words for promise, words in PROMISES.items() if promise not in self.promises)


@dataclass(frozen=True)
class NoSandbox:
    """No sandbox works here, so agents that need one get no shell."""

    reason: str
    remedy: str = ""

    @property
    def refusal(self) -> str:
        """The message for a read-only agent that calls the shell."""
        return f"This agent is read-only and gets no shell, because no sandbox works on this host: {self.reason}"
