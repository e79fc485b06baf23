"""Harnesses: other coding agents, run in a box as a leaf of the tree."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HOLD_SECONDS, MAX_HOLD_SECONDS = 20.0, 600.0
"""How long an open question keeps a process, and at most."""
HarnessKind = Literal["claude-code", "codex", "opencode", "gemini", "acp"]


class Harness(BaseModel):
    """Another coding agent that takes the place of the runtime's own loop."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: HarnessKind
    command: list[str] = []
    """With `acp`: a program that speaks the Agent Client Protocol, and its arguments."""
    version: str = ""
    """Versions that are accepted, as `>=2.1.330,<2.2`; empty: any."""
    subagents: bool = False
    """Permission to start agents of its own, which its job pays for and which are no agents of the tree."""
    question_hold: float = Field(default=HOLD_SECONDS, ge=0, le=MAX_HOLD_SECONDS)
    """Seconds that an open question may keep its process. With 0 it gives the process back at once."""

    @property
    def program(self) -> str:
        """The name of the program, as workers offer it."""
        return f"acp:{self.command[0]}" if self.kind == "acp" else self.kind

    def accepts(self, version: str) -> bool:
        """Report whether a version is accepted. An unknown one is only accepted where any is."""
        return accepts(self.version, version)


def accepts(wanted: str, version: str) -> bool:
    """Report whether a version fits the specifiers; without specifiers each does."""
    if not wanted:
        return True
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(wanted, prereleases=True).contains(version)
    except InvalidVersion:
        return False
