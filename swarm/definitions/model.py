"""The definition of an agent, and its parts."""

from __future__ import annotations

from operator import not_
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.records import PermissionMode as PermissionMode
from swarm.definitions.harness import Harness
from swarm.definitions.hooks import Hook
from swarm.definitions.mcp.servers import Server

DEFAULT_TYPE = "general-purpose"
"""The type of an agent when a call names none."""
REMOTE_SECONDS = 1_800.0
Mode = Literal["primary", "subagent", "all"]
MemoryScope = Literal["user", "project", "local", "team"]
"""Memory per type of agent of a person (all projects), of a project or of a workspace; `team`: a project's, for all types."""
Isolation = Literal["none", "worktree", "remote"]
"""The agent's files: its parent's, its own copy, or (`remote`) its own copy on any host."""
Execution = Literal["forked", "local", "remote", "teammate"]
"""How an agent runs: in a process anywhere in the fleet (default), on its parent's host, anywhere for a bounded time, or as a
member of a team that stays after its task."""
TYPE_NAME = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}:){0,8}[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
"""The form of a type's name, as a pattern."""
Effort = Literal["low", "medium", "high", "xhigh", "max"]


Phase = Literal["research", "implementation", "verification"]
"""The phase of a coordinator's order; the coordinator does the synthesis itself."""
Rule = Literal["self-contained", "synthesis", "leases", "verification", "hints"]
"""The rules that the runtime can enforce for a coordinator."""


class Outcome(BaseModel):
    """The conditions for accepting an agent's result: a command that must succeed, a grader's criteria, or both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str = ""
    """A shell command, run by the runtime in the agent's sandbox and workspace; it must end with the exit code 0."""
    rubric: str = Field(default="", max_length=20_000)
    """The grader's criteria, as text."""
    tries: int = Field(default=3, ge=1, le=20)
    """Maximum number of submissions."""
    check_seconds: float = Field(default=600.0, gt=0, le=3_600)
    """The time limit of one run of the check."""
    by_person: bool = False
    """The person who started the job gave the check, so the agent's permission mode does not apply to it."""


class WorkflowProgram(BaseModel):
    """A workflow's program. It takes the model's place: its calls are the agent's calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: Literal["native", "python", "javascript"]
    """`native`: a function of a module that workers have. The others run only in their sandbox."""
    home: str
    """`module:function`, or the program's file."""
    digest: str
    """Hash of the source: only a worker with the same native program may continue it."""
    source: str = ""
    """The text of a sandboxed program."""


class AgentDefinition(BaseModel):
    """One type of agent. An agent's journal contains it, so a later change of the file changes no running agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=rf"^{TYPE_NAME}$", max_length=200)
    """The name of the type; a plugin's has the plugin's name before it, `PLUGIN:NAME`."""
    description: str = Field(max_length=4_000)
    """When to use this type; parents choose by this text."""
    prompt: str
    """This type's part of the system prompt."""
    tools: list[str] | None = None
    """Names or patterns (`Read`, `mcp__github__*`, `Bash(git log:*)`); None means all."""
    disallowed_tools: list[str] = []
    permission: list[tuple[str, str, str]] = []
    """Permissions beyond the two lists: OpenCode's tool, pattern and action. The last match decides."""
    model: str | None = None
    """An alias, a full id, or `inherit`; None means the settings' model."""
    fallbacks: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Models that take over, in this order, when `model` cannot be used; named like it."""
    mode: Mode = "all"
    permission_mode: PermissionMode = "default"
    read_only: bool = False
    """The agent may change nothing: no writing tool is given, and its processes cannot write."""
    max_turns: int | None = Field(default=None, ge=1)
    instruction_files: bool = True
    """The agent gets the instruction files of people and projects; agents that only search need none."""
    memory: MemoryScope | None = None
    """Scope of the memory store that the agent has across jobs, besides its project's shared one."""
    command: list[str] = []
    """A program that takes the model's place. It runs in the agent's sandbox and exchanges JSON lines."""
    restart: bool = False
    """An interrupted program may run again from the beginning, because repeating its actions is harmless."""
    workflow: WorkflowProgram | None = Field(default=None, exclude_if=lambda program: program is None)
    """A program whose calls are the agent's calls, in place of a model's."""
    harness: Harness | None = Field(default=None, exclude_if=lambda one: one is None)
    """Another coding agent that works in place of the runtime's own loop."""
    skills: list[str] = []
    """Skills whose text the agent gets at its start."""
    network: bool = False
    """The agent's processes may use the network."""
    servers: list[Server] = []
    """MCP servers that only agents of this type have."""
    shared_servers: list[str] = []
    """Names of the job's MCP servers that this type needs."""
    background: bool = False
    requires: list[str] = []
    """Tags that the worker must have (`SWARM_TAGS`): `gpu`, `trusted`."""
    isolation: Isolation | None = None
    """None: the job's isolation."""
    kind: Execution = "forked"
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time limit of one run; None: the job's limit, or `REMOTE_SECONDS` for a remote agent."""
    abort_siblings: bool = False
    """If this agent fails, the agents started in the same reply are ended, because their work depends on it."""
    effort: str | None = None
    nicknames: list[str] = []
    """Names for agents of this type, one each, if the call gives none."""
    result_schema: dict[str, Any] | None = None
    """A JSON schema that the final answer must satisfy."""
    outcome: Outcome | None = None
    """Conditions that the runtime checks before it accepts the result."""
    coordination: list[Rule] = []
    """Rules that the runtime enforces when the agent delegates; with any rule, its orders state their phase."""
    hooks: list[Hook] = []
    """Hooks that the definition's file adds while the agent runs."""
    source: str = "shipped"
    """`shipped`, or the definition's file."""
    warnings: list[str] = []
    """The reader's warnings about keys and values that it did not fully understand."""

    @property
    def asks_model(self) -> bool:
        """Report whether the runtime asks a model for the agent's actions; not a program, nor a harness, which asks by itself."""
        return not self.command and self.workflow is None and self.harness is None

    @property
    def names_servers(self) -> bool:
        """Report whether it has MCP servers, or tools of some."""
        return bool(self.servers or self.shared_servers or any("mcp" in entry.lower() for entry in self.tools or ()))

    @property
    def may_be_first(self) -> bool:
        """Report whether a job can start with this type; a `subagent` can be first only if it is read-only."""
        return self.mode != "subagent" or self.read_only
