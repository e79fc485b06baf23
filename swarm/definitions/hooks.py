"""Hooks: a person's programs and URLs that are notified of agents' actions and can refuse or change them.

Hooks are pinned to a job and travel with it; `swarm.definitions.hook_tables` reads them.
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
"""The events that run hooks."""
DEFAULT_SECONDS, MAX_SECONDS = 60.0, 600.0
Origin = Literal["managed", "user", "project"]


class Hook(BaseModel):
    """One handler of one event."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str
    matcher: str = ""
    """Names separated by `|` or `,`, or a pattern; empty matches everything."""
    kind: Literal["command", "http"]
    command: str = ""
    args: tuple[str, ...] | None = None
    """Arguments of the program in `command`, which then runs without a shell."""
    url: str = ""
    headers: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    """Environment variables that the headers may use as `$NAME`."""
    condition: str = ""
    """A permission rule; the hook runs only for calls that match."""
    seconds: float = DEFAULT_SECONDS
    listens: bool = False
    """The hook only listens (`async`), and its output is ignored."""
    origin: Origin
    source: str
    """The file's path, as shown to people."""

    @cached_property
    def id(self) -> str:
        """Identifier from the hook's content, independent of its file."""
        return hashlib.sha256(self.model_dump_json(exclude={"source", "origin"}).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """One line for people: the command or the URL."""
        return " ".join((self.url or " ".join((self.command, *(self.args or ())))).split())

    def grant(self, note: str = "", files: dict[str, str] | None = None) -> Grant:
        """Return the grant that this hook needs, with a note and the digests of the files that it runs."""
        about = f" of {self.matcher}" if self.matcher else ""
        entry = self.model_dump(exclude={"source", "origin"}, mode="json")
        whole = self.url or " ".join((self.command, *(self.args or ())))
        return Grant(
            text=f"the hook on {self.event}{about}: {whole}{note}",
            source=self.source,
            content=json.dumps({**entry, "files": files or {}}),
        )

    def matches(self, *subjects: str) -> bool:
        """Report whether the matcher fits any of the subject's names; an event without a subject fits every hook."""
        if self.matcher in ("", "*") or not subjects:
            return True
        if re.fullmatch(r"[\w\- ,|]*", self.matcher):
            return not {part.strip() for part in re.split("[|,]", self.matcher)}.isdisjoint(subjects)
        return any(re.search(self.matcher, subject) for subject in subjects)


class Hooks(BaseModel):
    """The hooks of a job, in the order in which their results count."""

    model_config = ConfigDict(frozen=True)

    hooks: tuple[Hook, ...] = ()
    workspace: str = ""
    """The folder that the job was submitted for."""
    files: dict[str, str] = {}
    """Workspace files that hooks run, those of definitions included, with the SHA-256 of each at submission."""
    trusted: bool = False
    """The person trusts these files as pinned, so hooks may run them on the host."""

    def __bool__(self) -> bool:
        return bool(self.hooks or self.files)

    def of(self, event: str, *subjects: str) -> list[Hook]:
        """Return the hooks for an event, each once even if several files contain it."""
        found = (hook for hook in self.hooks if hook.event == event and hook.matches(*subjects))
        return list({hook.id: hook for hook in reversed(list(found))}.values())[::-1]
