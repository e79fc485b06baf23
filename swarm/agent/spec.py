"""An agent's spec: fixed when it is spawned, stored in its record, never changed."""

from __future__ import annotations

from operator import not_
from pathlib import PurePath

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.formats import Formatted
from swarm.core.records import Limits as Limits
from swarm.definitions.model import AgentDefinition, Isolation, PermissionMode
from swarm.definitions.setups import Setup
from swarm.permissions.rules import Rules
from swarm.workspace.sites import site_of

DEFAULT_AGENT = "build"
"""Default type of a job's first agent."""


class Files(BaseModel):
    """Storage of a job's files, besides the workspace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hub: str = ""
    """The hub that makes files available to every host; empty: snapshots are kept on the host that makes them."""
    setup: Setup | None = None
    """Setup that is run once in each checkout before its agent continues there."""


class JobRepository(BaseModel):
    """The repository that a job works on instead of a person's folder, and where its work goes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    ref: str = ""
    """A branch, tag or commit; empty: the default branch."""
    commit: str = ""
    """The commit of `ref` at the order, if the submitter could ask."""
    target: str = ""
    """The branch that a pull request is for; known together with `commit`."""
    branch: str = ""
    """The branch for the work; empty: `swarm/JOB`."""
    pull_request: bool = False
    issue: int = 0
    """The number of the issue whose people learn of the job's end; 0: none."""
    commit_status: bool = False
    """Whether the job is shown as a check of the commit of `ref` and of the pushed ones."""

    @property
    def needs_forge(self) -> bool:
        """Report whether the job uses its server's API, besides Git."""
        return self.pull_request or self.issue > 0 or self.commit_status

    @property
    def shown(self) -> str:
        """The repository for people."""
        return f"{self.url}@{self.ref}" if self.ref else self.url

    @property
    def site(self) -> str:
        """The name of its server."""
        return site_of(self.url)


class AgentSpec(Formatted):
    """Everything an agent needs to begin; a worker needs no file of the submitter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: str
    job_id: str
    parent_id: str | None = None
    depth: int = Field(default=0, ge=0)
    definition: AgentDefinition
    description: str = Field(max_length=200)
    """A few words for lists and Flower."""
    prompt: str
    model: str
    """A full model id: the first model that it asks. `swarm.agent.history.History.switched` names a later one."""
    fallbacks: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Full ids of the models that take over, in this order."""
    mode: PermissionMode = "acceptEdits"
    """The initial permission mode."""
    after_plan: PermissionMode | None = None
    """The most permissive mode after its plan is approved; None: not in plan mode, or cannot leave it."""
    rules: Rules = Rules()
    """Restrictions by its definition and its ancestors', beside the job's rules."""
    folders: list[str] = []
    """Further folders, absolute and resolved, with the same access as the workspace."""
    profile: str = ""
    """Shell text, from hooks of the job's beginning, that runs before each command of its shell tool."""
    network: bool = False
    """Whether the agent's processes may use the network."""
    workspace: str
    cwd: str = ""
    """Start folder of commands and relative paths, below the workspace; empty: the workspace."""
    isolation: Isolation = "none"
    """Whether the workspace is the agent's own copy."""
    host: str = ""
    """The only host that may run the agent; empty: any."""
    max_seconds: float | None = None
    """Time limit of each run."""
    base: str = ""
    """The commit that its workspace begins as, where it has one of its own. Of a job from a repository, its first worker sets it."""
    repository: JobRepository | None = Field(default=None, exclude_if=lambda one: one is None)
    """The repository of a job's root; None: its files come from a folder."""
    files: Files | None = None
    """File storage; None: files stay in the workspace, with no copies."""
    name: str | None = None
    """Name in the job's directory, besides the id."""
    background: bool = False
    """The parent does not wait: it receives the end as a message."""
    teammate: bool = False
    """The agent stays after a task: idle, without a process, until a message or a task comes."""
    role: str | None = None
    """A teammate's role, which selects its tasks on the board."""
    helper: bool = False
    """The runtime started it for its parent: limits of depth and number of agents do not apply."""
    fork: int | None = Field(default=None, ge=1)
    """Number of entries of the parent's journal that the conversation begins with."""
    has_tools: list[str] | None = None
    """Callable tools of a fork of another type than its parent; None: all."""
    summaries: bool = False
    """A small model reports progress and the end to people."""
    batch: bool = False
    """The one request goes by the Message Batches API, at half the price."""
    base_url: str | None = None
    """A rehearsal server's URL; only loopback addresses are honoured, and only with a worthless key."""
    limits: Limits = Limits()
    created_at: float = 0.0

    @property
    def called(self) -> str:
        """Name for others: its own, else `root` or its id."""
        return self.name or ("root" if self.parent_id is None else self.agent_id)

    @property
    def superiors(self) -> set[str]:
        """Ids of the senders that bind it: its job's person and its parent."""
        return {self.job_id, self.parent_id or self.job_id}

    @property
    def is_carried(self) -> bool:
        """Whether files follow the agent: its workspace equals the journal's last commit at each segment."""
        return self.files is not None and self.files.hub != ""

    def workspace_for(self, agent_id: str) -> str:
        """Return a child's workspace: the same, or a carried copy, possibly on another host."""
        given = PurePath(self.workspace)
        return str(given.parent.with_name(agent_id) / given.name) if self.is_carried else self.workspace

    @property
    def has_own_copy(self) -> bool:
        """Whether the agent works on a copy on one host, which its parent merges; the step that finds a beginning makes one without."""
        return self.isolation != "none" and self.base != "" and not self.is_carried

    @property
    def begins_repository(self) -> bool:
        """Whether the agent is the root of a job that works on a repository."""
        return self.repository is not None and self.parent_id is None

    @property
    def setup(self) -> Setup | None:
        """The setup of its checkout."""
        return self.files.setup if self.files is not None else None

    @property
    def is_summarized(self) -> bool:
        """Whether people get summaries of its work; without a model of its own there is nothing to summarize."""
        return self.summaries and self.definition.asks_model

    @property
    def reading_place(self) -> str:
        """Name of the checkout that the readers of one tree of the job share on a host."""
        return f"{self.job_id}-{self.base[:12]}"

    @property
    def reads_with_others(self) -> bool:
        """Whether the agent works in a shared reading checkout."""
        return self.is_carried and PurePath(self.workspace).parent.name == self.reading_place

    def beside_readers(self) -> AgentSpec:
        """Return the spec with a shared checkout if the agent is read-only and files are carried."""
        if not (self.is_carried and self.base and self.definition.read_only):
            return self
        given = PurePath(self.workspace)
        return self.model_copy(update={"workspace": str(given.parent.with_name(self.reading_place) / given.name)})

    @property
    def plan_file(self) -> str:
        """The only writable file in plan mode."""
        return f"{self.workspace}/.swarm/plans/{self.agent_id}.md"

    @property
    def label(self) -> str:
        """The readable name: `explore: find auth callers`."""
        return f"{self.definition.name}: {self.description}"

    @property
    def log_name(self) -> str:
        """The label for logs: a root's description is made from its prompt, which stays out of them."""
        return self.label if self.parent_id else f"{self.definition.name}: {self.job_id}"
