"""How processes are confined on this host, or why they cannot be: what `choose_backend` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm.core.errors import ToolError

Promise = Literal["files", "network", "signals", "processes", "metadata", "settings", "process count"]
PROMISES: dict[Promise, str] = {
    "files": "nothing is read or written outside of what the agent was given",
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
    """This command cannot be given the sandbox that its policy asks for; the message says what is in the way."""


@dataclass(frozen=True)
class Backend:
    """A way to confine processes that was tried and works here."""

    name: Literal["bubblewrap", "landlock"]
    promises: frozenset[Promise]
    program: str | None = None
    """The path of `bwrap`."""
    abi: int = 0
    """The version of the kernel's Landlock interface, 0 without it."""
    note: str = ""
    """Why a better backend was not chosen, and what to do about it."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The promises it does not hold, in words."""
        return tuple(words for promise, words in PROMISES.items() if promise not in self.promises)


@dataclass(frozen=True)
class NoSandbox:
    """There is none: an agent that needs one gets no shell."""

    reason: str
    remedy: str = ""

    @property
    def refusal(self) -> str:
        """What a read-only agent is told that asks for a shell."""
        return f"This agent is read-only and gets no shell, because no sandbox works on this host: {self.reason}"
