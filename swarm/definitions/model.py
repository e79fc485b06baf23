"""What an agent is made from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.records import PermissionMode as PermissionMode
from swarm.definitions.hooks import Hook
from swarm.definitions.mcp.servers import Server

DEFAULT_TYPE = "general-purpose"
"""What is started when no type is named."""
REMOTE_SECONDS = 1_800.0
Mode = Literal["primary", "subagent", "all"]
MemoryScope = Literal["user", "project", "local", "team"]
"""Whose memory: a person's over all projects, a project's, one workspace's, each per type of agent; a project's of all types."""
Isolation = Literal["none", "worktree", "remote"]
"""Whose files an agent works on: its parent's, or a copy of its own; `remote`: a copy that may lie on any host."""
Execution = Literal["forked", "local", "remote", "teammate"]
"""How an agent runs: as all do, in a process of its own somewhere in the fleet; on its parent's host; anywhere, for a bounded time; or it
lives on after its task, as a member of a team."""
Effort = Literal["low", "medium", "high", "xhigh", "max"]


Phase = Literal["research", "implementation", "verification"]
"""What an order of a coordinator is for; the synthesis is its own."""
Rule = Literal["self-contained", "synthesis", "leases", "verification", "hints"]
"""What a coordinator can be held to."""


class Outcome(BaseModel):
    """What must hold before an agent's end is accepted: a command that must succeed, criteria that a grader judges by, or both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str = ""
    """A shell command, run by the runtime in the agent's sandbox and workspace; it must end with the exit code 0."""
    rubric: str = Field(default="", max_length=20_000)
    """What the work is judged by, in words."""
    tries: int = Field(default=3, ge=1, le=20)
    """How often the work may be handed in."""
    check_seconds: float = Field(default=600.0, gt=0, le=3_600)
    """The time limit of one run of the check."""
    by_person: bool = False
    """Who started the job gave the check: it is not for the agent's permission mode to forbid."""


class AgentDefinition(BaseModel):
    """One type of agent. It is frozen into the agent's journal, so a later change of the file changes no running agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")
    description: str = Field(max_length=4_000)
    """When to use it: the text a parent chooses by."""
    prompt: str
    """The system prompt's own part."""
    tools: list[str] | None = None
    """Names or patterns (`Read`, `mcp__github__*`, `Bash(git log:*)`); None means all."""
    disallowed_tools: list[str] = []
    permission: list[tuple[str, str, str]] = []
    """What the two lists cannot say: tool, pattern and action as OpenCode has them; the last that matches decides."""
    model: str | None = None
    """An alias, a full id, or `inherit`; None means the settings' model."""
    mode: Mode = "all"
    permission_mode: PermissionMode = "default"
    read_only: bool = False
    """The agent may change nothing: no writing tool is given, and its processes cannot write."""
    max_turns: int | None = Field(default=None, ge=1)
    instruction_files: bool = True
    """It is given the instruction files of people and projects; who only finds things out has no need of them."""
    memory: MemoryScope | None = None
    """It remembers across jobs, on that scope's shelf of its type and on its project's shared one."""
    command: list[str] = []
    """It is no model's prompt but this program, run in the sandbox of each agent, which speaks JSON lines."""
    restart: bool = False
    """The program may be run again from the beginning where it was interrupted: nothing that it did is wrong if done twice."""
    skills: list[str] = []
    """Skills whose text it is given to begin with."""
    network: bool = False
    """Its processes may use the network."""
    servers: list[Server] = []
    """MCP servers that agents of this type have, and no others …"""
    shared_servers: list[str] = []
    """… and those of the job that it says it needs, by name."""
    background: bool = False
    requires: list[str] = []
    """Tags that its worker must have (`SWARM_TAGS`): `gpu`, `trusted`."""
    isolation: Isolation | None = None
    """None: as the job has it."""
    kind: Execution = "forked"
    timeout_seconds: float | None = Field(default=None, gt=0)
    """How long a run of it may take; None: as long as its job, or `REMOTE_SECONDS` of a remote one."""
    abort_siblings: bool = False
    """If one of these fails, those that were started beside it, in the same reply, are ended: their work is worth nothing without it."""
    effort: str | None = None
    nicknames: list[str] = []
    """Names that its agents are given, one each, where the call gives none."""
    result_schema: dict[str, Any] | None = None
    """A JSON schema that the final answer must satisfy."""
    outcome: Outcome | None = None
    """What its work must satisfy, beyond being said to be done."""
    coordination: list[Rule] = []
    """What the runtime holds it to when it works through others; with any rule, its orders say their phase."""
    hooks: list[Hook] = []
    """What its file has run while it is at work."""
    source: str = "shipped"
    """`shipped`, or the file it was read from."""
    warnings: list[str] = []
    """What its reader understood only in part."""

    @property
    def may_be_first(self) -> bool:
        """Whether a job can start with it: also with one that only agents start, if it can change nothing."""
        return self.mode != "subagent" or self.read_only
