"""The differences between harnesses: how a program is started, heard and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from swarm.agent.harnesses import NOT_RUN

if TYPE_CHECKING:
    from swarm.capabilities.harnesses.run import HarnessRun

PORT = 8787
"""The port of the box's own loopback that leads to the gateway."""
URL = f"http://127.0.0.1:{PORT}"
HOME = "/tmp"
"""The home of a program, as it sees it."""

_UNKNOWN = "The call was not run: the reply that makes it is not known."


@dataclass(frozen=True)
class ProgramStart:
    """How a program is started."""

    argv: list[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    """Files beside the gateway's socket, which the program can read and not write, by name."""
    home_files: Mapping[str, str] = field(default_factory=dict)
    """Files of its home, by relative path."""


class Adapter:
    """One program that runs. All methods are called on the thread that runs the agent."""

    session_files: ClassVar[tuple[str, ...]] = ()
    """Patterns of the files that hold its conversation, relative to its home."""
    keeps_each_call: ClassVar[bool] = True
    """Whether they are kept before each call begins, because they only grow at their end; else after the run."""
    lacking: ClassVar[str] = NOT_RUN
    """The words about a call that has not begun and has no result."""
    patience_seconds: ClassVar[float] = 10.0
    """How long a hook waits for the reply with its call. Then the call is refused."""

    def __init__(self, run: HarnessRun) -> None:
        self.run = run
        self.error = ""
        """Why its work ended without an answer, in its own words."""
        self.has_answered = False

    def why_unfit(self) -> str:
        """Return why the program cannot run this agent; empty if it can."""
        return ""

    def continues(self, transcript: str) -> bool:
        """Whether the program, by its own record, continues at a call that it had put off."""
        return False

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        """Say how to start it. `given` is the folder of its files, as it sees it."""
        raise NotImplementedError

    def begin(self, prompt: str) -> None:
        """Give it the prompt, right after its start."""
        raise NotImplementedError

    def hear(self, line: str) -> None:
        """Take in a line of its output."""
        raise NotImplementedError

    def hook(self, told: dict[str, Any]) -> bool:
        """Answer a hook through `run.answer_hook`; False if it is too early for it."""
        return True

    def refuse(self, told: dict[str, Any]) -> None:
        """Refuse the call of a hook for which it stays too early."""
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": _UNKNOWN}
        self.run.answer_hook(told, {"hookSpecificOutput": output})

    def answer(self, call_id: str, allowed: bool, reason: str) -> None:
        """Give the program the decision about a call."""
        raise NotImplementedError

    def put_off(self, call_id: str) -> None:
        """Have the program put a call off, and end."""
        raise NotImplementedError
