"""Hooks: programs and addresses of people's own that are told of what agents do, and may refuse or change it.

They travel with the job that they were pinned to; `swarm.definitions.hook_tables` reads them.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict

from swarm.definitions.grants import Grant

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStart"),
    *("SubagentStop", "Stop", "TaskCompleted", "TeammateIdle", "PreCompact", "SessionEnd"),
)
"""The events that hooks are run for."""
DEFAULT_SECONDS, MAX_SECONDS = 60.0, 600.0
Origin = Literal["managed", "user", "project"]


class Hook(BaseModel):
    """One handler of one event."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str
    matcher: str = ""
    """What it is for: names parted by `|` or `,`, or a pattern; empty: everything."""
    kind: Literal["command", "http"]
    command: str = ""
    args: tuple[str, ...] | None = None
    """The command is a program with these arguments, and no shell's text."""
    url: str = ""
    headers: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    """Variables of the environment that the headers may name as `$NAME`."""
    condition: str = ""
    """A rule, as in permissions: only calls that it matches."""
    seconds: float = DEFAULT_SECONDS
    listens: bool = False
    """It only listens (`async`): nothing it says counts."""
    origin: Origin
    source: str
    """The file, as people find it."""

    @cached_property
    def id(self) -> str:
        """Tells it from every other one, wherever it was written."""
        return hashlib.sha256(self.model_dump_json(exclude={"source", "origin"}).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """It in a line: the command, or the address."""
        return " ".join((self.url or " ".join((self.command, *(self.args or ())))).split())

    def grant(self, note: str = "", files: dict[str, str] | None = None) -> Grant:
        """What has to be trusted for it, with a note, and with the files that it runs."""
        about = f" of {self.matcher}" if self.matcher else ""
        entry = self.model_dump(exclude={"source", "origin"}, mode="json")
        whole = self.url or " ".join((self.command, *(self.args or ())))
        return Grant(
            text=f"the hook on {self.event}{about}: {whole}{note}",
            source=self.source,
            content=json.dumps({**entry, "files": files or {}}),
        )

    def matches(self, *subjects: str) -> bool:
        """Whether it is for any of these names of one thing; an event that has none is everybody's."""
        if self.matcher in ("", "*") or not subjects:
            return True
        if re.fullmatch(r"[\w\- ,|]*", self.matcher):
            return not {part.strip() for part in re.split("[|,]", self.matcher)}.isdisjoint(subjects)
        return any(re.search(self.matcher, subject) for subject in subjects)


class Hooks(BaseModel):
    """The hooks that hold for a job, in the order in which their results count."""

    model_config = ConfigDict(frozen=True)

    hooks: tuple[Hook, ...] = ()
    workspace: str = ""
    """The folder that it was submitted for."""
    files: dict[str, str] = {}
    """The files of the workspace that hooks run, those of definitions included, with the SHA-256 of each when the job was submitted."""
    trusted: bool = False
    """The person trusts these files as they were: a hook of theirs may run them on a host."""

    def __bool__(self) -> bool:
        return bool(self.hooks or self.files)

    def of(self, event: str, *subjects: str) -> list[Hook]:
        """Those for an event; one that was written in several places, once."""
        found = (hook for hook in self.hooks if hook.event == event and hook.matches(*subjects))
        return list({hook.id: hook for hook in reversed(list(found))}.values())[::-1]
