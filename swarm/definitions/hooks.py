"""Hooks: a person's programs and URLs that are notified of agents' actions and can refuse or change them.

Hooks are pinned to a job and travel with it; `swarm.definitions.hook_tables` reads them.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from operator import not_
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.definitions.grants import Grant
from swarm.definitions.plugins.words import fill_root

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse"),
    *("PostToolUseFailure", "PostToolBatch", "Notification", "SubagentStart", "SubagentStop", "Stop", "StopFailure"),
    *("TaskCreated", "TaskCompleted", "TeammateIdle", "PreCompact", "PostCompact", "SessionEnd"),
    "Elicitation",
)
"""The events that run hooks."""
NO_MOMENT = {
    **dict.fromkeys(("Setup", "UserPromptExpansion", "InstructionsLoaded"), "this is done where a job is submitted"),
    **dict.fromkeys(
        ("CwdChanged", "FileChanged", "DirectoryAdded"), "an agent's folders are fixed, and no one watches files"
    ),
    "ConfigChange": "a job keeps the settings that it was submitted with",
    **dict.fromkeys(("PreModelSwitch", "PostModelSwitch"), "an agent keeps its model"),
    **dict.fromkeys(("WorktreeCreate", "WorktreeRemove"), "copies of a workspace are commits, without Git worktrees"),
    "ElicitationResult": "a person's answer goes to the MCP server as it is",
    "MessageDisplay": "an agent shows nothing itself",
}
"""Events of Claude Code without a moment here, with the reason."""
MAX_SECONDS = 600.0
DECIDED = (
    *("UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolBatch", "SubagentStop", "Stop"),
    *("TaskCreated", "TaskCompleted", "TeammateIdle"),
)
"""Events that a model can decide about."""
HookKind = Literal["command", "http", "prompt", "agent", "mcp_tool"]
Origin = Literal["managed", "user", "project"]


class Hook(BaseModel):
    """One handler of one event."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str
    matcher: str = ""
    """Names separated by `|` or `,`, or a pattern; empty matches everything."""
    kind: HookKind
    command: str = ""
    args: tuple[str, ...] | None = None
    """Arguments of the program in `command`, which then runs without a shell."""
    url: str = ""
    headers: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    """Environment variables that the headers may use as `$NAME`."""
    # Fields of later kinds are written only where they are used: a hook's content is what a person trusts.
    prompt: str = Field(default="", exclude_if=not_)
    """The question to a model; `$ARGUMENTS` stands for the event."""
    model: str = Field(default="", exclude_if=not_)
    """The asked model; empty: the worker's small one."""
    goes_on: bool = Field(default=False, exclude_if=not_)
    """A model's refusal after a call does not end the run (`continueOnBlock`)."""
    required: bool = Field(default=False, exclude_if=not_)
    """A failure of the hook is a refusal (`onFailure: block`)."""
    server: str = Field(default="", exclude_if=not_)
    tool: str = Field(default="", exclude_if=not_)
    """The MCP server's tool that is called."""
    input: dict[str, Any] = Field(default={}, exclude_if=not_)
    """The call's input; `${field}` stands for a field of the event."""
    condition: str = ""
    """A permission rule; the hook runs only for calls that match."""
    seconds: float = MAX_SECONDS
    listens: bool = False
    """The hook only listens (`async`), and its output is ignored."""
    plugin: str = Field(default="", exclude_if=lambda plugin: not plugin)
    """The place of the plugin that it belongs to, below the folder of jobs' plugins."""
    origin: Origin
    source: str
    """The file's path, as shown to people."""

    @cached_property
    def id(self) -> str:
        """Identifier from the hook's content, independent of its file."""
        return hashlib.sha256(self.model_dump_json(exclude={"source", "origin"}).encode()).hexdigest()[:12]

    def at(self, plugins: str) -> Hook:
        """Return the hook with its plugin's folder in its words; `plugins` is the folder of jobs' plugins."""
        if not self.plugin:
            return self
        words = [fill_root(word, f"{plugins}/{self.plugin}") for word in (self.command, *(self.args or ()))]
        args = None if self.args is None else tuple(words[1:])
        return self.model_copy(update={"command": words[0], "args": args})

    @property
    def fails_closed(self) -> bool:
        """Whether its failure is a refusal, where it could refuse: always for the operator's hooks."""
        return self.required or self.origin == "managed"

    @property
    def label(self) -> str:
        """One line for people: the command, URL, question or call."""
        return " ".join(self._whole.split())

    @property
    def _whole(self) -> str:
        called = f"{self.server} {self.tool} {json.dumps(self.input)}" if self.kind == "mcp_tool" else ""
        return self.url or self.prompt or called or " ".join((self.command, *(self.args or ())))

    def grant(self, note: str = "", files: dict[str, str] | None = None) -> Grant:
        """Return the grant that this hook needs, with a note and the digests of the files that it runs."""
        about = f" of {self.matcher}" if self.matcher else ""
        entry = self.model_dump(exclude={"source", "origin"}, mode="json")
        return Grant(
            text=f"the hook on {self.event}{about}: {self._whole}{note}",
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
