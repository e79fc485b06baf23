"""What an agent is started with: fixed when it is spawned, stored in its record, never changed."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.records import Limits as Limits
from swarm.definitions.model import AgentDefinition, Isolation, PermissionMode
from swarm.definitions.setups import Setup
from swarm.permissions.rules import Rules

SPEC_VERSION: Literal[1] = 1
DEFAULT_AGENT = "build"
"""The type of a job's first agent, unless somebody says another."""


class Files(BaseModel):
    """How the files of a job are kept, beside lying where they lie."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hub: str = ""
    """The hub that they go through, so that every host can have them; empty: snapshots are kept on the host that makes them."""
    setup: Setup | None = None
    """What is run once in each checkout, before its agent goes on there."""


class AgentSpec(BaseModel):
    """Everything an agent needs to begin, self-contained: a worker needs no file of the person who asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    v: Literal[1] = SPEC_VERSION
    agent_id: str
    job_id: str
    parent_id: str | None = None
    depth: int = Field(default=0, ge=0)
    definition: AgentDefinition
    description: str = Field(max_length=200)
    """A few words for lists and Flower."""
    prompt: str
    model: str
    """A full model id."""
    mode: PermissionMode = "acceptEdits"
    """The permission mode it begins in."""
    after_plan: PermissionMode | None = None
    """The most it may be permitted once its plan is approved; None: it is not in plan mode, or cannot leave it."""
    rules: Rules = Rules()
    """What its definition, and those of its ancestors, take away, beside the job's rules."""
    folders: list[str] = []
    """Further folders, absolute and resolved, that it may work in as in the workspace."""
    network: bool = False
    """Its processes may use the network."""
    workspace: str
    cwd: str = ""
    """The folder below the workspace that its commands begin in and that its relative paths are relative to; empty: the workspace."""
    isolation: Isolation = "none"
    """Whether the workspace is a copy of its own, which nobody else works in."""
    host: str = ""
    """The one host that it may run on; empty: any."""
    max_seconds: float | None = None
    """How long each of its runs may take."""
    base: str = ""
    """The commit that its workspace begins as, where it has one of its own."""
    files: Files | None = None
    """None: files lie in the workspace, and nothing else is done about them."""
    name: str | None = None
    """Its name in the job's directory, besides its id."""
    background: bool = False
    """Its parent does not wait: its end arrives there as a message."""
    teammate: bool = False
    """It lives on after a task: idle, without a process, until a message or a task comes."""
    role: str | None = None
    """Of a teammate: which tasks of the board are for it."""
    helper: bool = False
    """The runtime started it, for its parent: the limits of depth and of the number of agents are not for it."""
    fork: int | None = Field(default=None, ge=1)
    """It begins with its parent's conversation, as the first so many entries of the parent's journal tell it."""
    has_tools: list[str] | None = None
    """Of a fork that is of another type than its parent: which of the tools that its requests begin with it may call; None: all."""
    summaries: bool = False
    """A small model tells people what it does, meanwhile and at the end."""
    batch: bool = False
    """It has time: its one request goes by the Message Batches API, at half the price."""
    base_url: str | None = None
    """A rehearsal server's URL; only loopback addresses are honoured, and only with a worthless key."""
    limits: Limits = Limits()
    created_at: float = 0.0

    @property
    def called(self) -> str:
        """What others call it: its name, else `root` or its id."""
        return self.name or ("root" if self.parent_id is None else self.agent_id)

    @property
    def superiors(self) -> set[str]:
        """Whose words bind it: its job's person, and its parent."""
        return {self.job_id, self.parent_id or self.job_id}

    @property
    def is_carried(self) -> bool:
        """Whether its files follow it: the workspace is its own, and equal to what its journal names last whenever a segment begins."""
        return self.files is not None and self.files.hub != ""

    def workspace_for(self, agent_id: str) -> str:
        """Of an agent that this one starts: its own; where files are carried a copy beside it, which may be on another host."""
        given = PurePath(self.workspace)
        return str(given.parent.with_name(agent_id) / given.name) if self.is_carried else self.workspace

    @property
    def reading_place(self) -> str:
        """What the checkout is called that those have on a host who read the same tree of the job."""
        return f"{self.job_id}-{self.base[:12]}"

    @property
    def reads_with_others(self) -> bool:
        """Whether it works in such a checkout."""
        return self.is_carried and PurePath(self.workspace).parent.name == self.reading_place

    def beside_readers(self) -> AgentSpec:
        """The same; if it can change nothing and its files are carried, it shares a checkout with who else reads that tree."""
        if not (self.is_carried and self.base and self.definition.read_only):
            return self
        given = PurePath(self.workspace)
        return self.model_copy(update={"workspace": str(given.parent.with_name(self.reading_place) / given.name)})

    @property
    def plan_file(self) -> str:
        """The one file that it may write in plan mode."""
        return f"{self.workspace}/.swarm/plans/{self.agent_id}.md"

    @property
    def label(self) -> str:
        """The readable name: `explore: find auth callers`."""
        return f"{self.definition.name}: {self.description}"

    @property
    def log_name(self) -> str:
        """The same for logs: a root's description is made from its prompt, which stays out of them."""
        return self.label if self.parent_id else f"{self.definition.name}: {self.job_id}"
