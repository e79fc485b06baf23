"""The tool port: a tool, its context and its result.

A tool is a name, a schema and a function, and a row of `swarm.definitions.tools` with the facts that the rest of the project
needs. It acts only through its `ToolContext`. A `ToolError` that it raises becomes an error result for the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.errors import ToolError
from swarm.core.records import AgentView
from swarm.definitions.model import PermissionMode
from swarm.definitions.tools import ToolRow, row_of
from swarm.models import Reply
from swarm.store.questions import Ask
from swarm.store.store import Store
from swarm.store.values import Most, Signals
from swarm.tools.outputs import Outputs
from swarm.workspace import shown
from swarm.workspace.merge import Strategy

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from swarm.definitions.model import AgentDefinition
    from swarm.tools.program import Exchange
    from swarm.tools.web.reach import Reach


_MAX_ACTIVITY_CHARACTERS = 120

Confine = Callable[["ToolContext", list[str]], list[str]]
"""Turns a command into one that runs it in a sandbox made for the agent."""
StartMembers = Callable[[str, Sequence[dict[str, Any]]], dict[str, str]]
"""Starts agents for a call, each as the input of an `Agent` call says; returns, by name, why one was not started."""


@dataclass(frozen=True)
class Consultation:
    """One request to a small model."""

    system: str
    messages: list[dict[str, Any]]
    max_tokens: int
    tools: tuple[dict[str, Any], ...] = ()
    """Tools that the server itself carries out, or the caller between two requests."""
    model: str = ""
    """The model to ask; empty: the worker's small one."""


Consult = Callable[[Consultation], Reply]
"""Makes the request. Raises `ToolError` if the job cannot pay for it, and `ModelError` if the model fails."""


@dataclass(frozen=True)
class Hold:
    """The limits of one call's process where they differ from those of the agent's shell."""

    read_only: bool = False
    """The process may change nothing, even if the agent may."""
    network: bool = False
    """The process may use the network as far as the worker allows it."""
    readable: tuple[Path, ...] = ()
    """Further files and folders that the process must see."""
    home: Path | None = None
    """The process's HOME and TMPDIR if they are not the agent's."""
    looks: bool = False
    """Trial run without effects: the agent's HOME is read-only, TMPDIR is `home`, and files that rules deny are hidden."""
    needed: bool = True
    """Run only in a sandbox. False: without a sandbox, run as the agent's shell would."""


class ToolResult(BaseModel):
    """A tool's result for the model."""

    model_config = ConfigDict(frozen=True)

    text: str
    is_error: bool = False
    blocks: list[dict[str, Any]] | None = None
    """Content blocks (an image, say) that replace `text` in the API's `tool_result`; `text` is still logged."""
    held: tuple[str, ...] = ()
    """Changes that programs outside the sandbox would obey, and how each was handled; `text` says it, too."""
    commit: str = ""
    """The workspace's commit after the call, if the call merged into it."""
    servers: dict[str, str] = {}
    """MCP server that ran the call → the id of that server's start."""


class AwaitsAnswer(Exception):
    """A call needs an answer to continue: the agent parks, and the call resumes with the answer."""

    def __init__(self, question_id: str, ask: Ask, tool_use_id: str, told: Mapping[str, Any], otherwise: str) -> None:
        super().__init__(ask.title)
        self.question_id, self.ask, self.tool_use_id = question_id, ask, tool_use_id
        self.told, self.otherwise = told, otherwise
        """The question for programs, and the answer where no person answers."""


class ServerPort(Protocol):
    """Requests that tools can make to an agent's MCP servers."""

    def names(self, what: str) -> list[str]:
        """The servers that offer `resources`, or `prompts`."""

    def ask(self, server: str, request: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return a server's answer. Raises `ToolError`."""

    def deferred(self) -> list[dict[str, Any]]:
        """The schemas of the agent's tools that a model must search for."""


@dataclass
class ToolContext:
    """The world one call acts in; never shared between agents."""

    spec: AgentSpec
    store: Store
    publish: Callable[[Signals | None], None]
    """Carries out the signals of a store step: wakes, stops."""
    tool_use_id: str
    workspace: Path
    """The root that no path may leave; absolute and resolved."""
    outputs: Outputs
    most: Most = field(default_factory=Most)
    """Bounds of the files and texts that the job's agents share."""
    generation: int = 0
    """Generation of the agent's claim; 0 without a claim."""
    folders: tuple[Path, ...] = ()
    """Further folders that the agent may work in; a call that is about a path of one of them has it as its `workspace`."""
    mode: PermissionMode = "default"
    """The permission mode in force."""
    after_plan: PermissionMode | None = None
    """The widest mode after a plan is approved; None: plan mode cannot be left."""
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → mtime in ns when this agent last read or wrote it; rebuilt from the journal after a crash."""
    scratch: Path | None = None
    """A private temporary folder for the agent's processes; made on first use."""
    environment: dict[str, str] = field(default_factory=dict)
    """Extra variables for the agent's processes, beyond what survives the cleaning."""
    profile: str = ""
    """Shell text that runs before each command of the shell tool, with the rights of the command."""
    readable: tuple[Path, ...] = ()
    """Folders outside of the workspace that its processes may read."""
    confine: Confine | None = None
    """None: nothing confines this agent's processes, so a read-only agent may start none."""
    hold: Hold | None = None
    """Limits of a call whose process must be in a sandbox. None: as the agent's shell."""
    tell: Callable[[str], None] = lambda line: None
    """Shows watchers one line about the call's progress."""
    may_read: Callable[[Path], bool] | None = None
    """Whether a file may be read, for tools that search many; None: every file of the workspace may."""
    merge: Callable[[AgentView, Strategy | None], ToolResult] | None = None
    """Merges a child's changes from its own copy."""
    start_members: StartMembers | None = None
    """Starts the members of the team that the caller leads."""
    check: Callable[[], None] = lambda: None
    """Long-running tools call this about once a second; it raises when the agent must stop."""
    now: Callable[[], float] = time.time
    """The server's clock: the time that calls wait by."""
    waited: Condition | None = None
    """The condition that the call waited for, once it holds."""
    consult: Consult | None = None
    """Asks a small model, at the job's expense."""
    exchange: Exchange | None = None
    """Messages to and from an agent that is a program, while it runs."""
    carried_files: dict[str, Callable[[str], bytes]] = field(default_factory=dict)
    """Readers of files that travel with the job, by the prefix of their paths for agents."""
    refuse_skill: Callable[[Any], str] = lambda skill: ""
    """Explains why rules keep a skill from the agent; empty if they do not."""
    reach: Callable[[], Reach] | None = None
    """The hosts that may be fetched from; None: this worker's agents have no network."""
    servers: ServerPort | None = None
    """The agent's MCP servers."""
    servers_seen: Mapping[str, str] = field(default_factory=dict)
    """MCP server → the id of the start that ran the agent's last call of it."""

    @property
    def agent_id(self) -> str:
        """The calling agent."""
        return self.spec.agent_id

    @property
    def job_id(self) -> str:
        """The job that the agent belongs to."""
        return self.spec.job_id

    def ask(self, consultation: Consultation) -> Reply:
        """Ask a small model, at the job's expense. Raises `ToolError` if the job cannot pay, and `ModelError`."""
        if self.consult is None:
            raise ToolError("no model can be asked here")
        return self.consult(consultation)

    def show(self, path: Path) -> str:
        """A path as the agent reads it: relative to its workspace, absolute in a further folder."""
        return str(path) if self.workspace in self.folders else shown(self.workspace, path)

    @property
    def read_only(self) -> bool:
        """The agent may change nothing."""
        return self.spec.definition.read_only

    @property
    def idempotency_key(self) -> str:
        """A key that is equal for every delivery of the call."""
        return f"{self.agent_id}/{self.tool_use_id}"

    @property
    def cause(self) -> str:
        """Idempotency key for a step in Redis: it applies once, and never after another worker has claimed the agent."""
        return f"{self.agent_id}:{self.generation}/{self.tool_use_id}" if self.generation else self.idempotency_key


@dataclass(frozen=True)
class Tool:
    """One tool: its face to the model, and the functions behind it.

    All functions are called with input already validated against the schema, and raise `ToolError`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schemas by parameter; others are refused."""
    required: Sequence[str] = ()
    definitions: Mapping[str, Any] = field(default_factory=dict)
    """Schemas that the parameters' refer to, as `#/$defs/NAME`."""
    run: Callable[[ToolContext, dict[str, Any]], ToolResult] | None = None
    """None: the runtime carries the call out, by its kind."""
    wait: Callable[[ToolContext, dict[str, Any]], Condition] | None = None
    """Kind `WAIT`: the condition to wait for. `run` then reports the state; `ToolContext.waited` holds the condition."""
    ask: Callable[[ToolContext, dict[str, Any]], Ask] | None = None
    """Kind `ASK`: the question."""
    orders: Callable[[dict[str, Any]], tuple[dict[str, Any], AgentDefinition | None]] | None = None
    """Kind `SPAWN`: the input of the `Agent` call that the call stands for, and the child's definition if no type is named."""
    foresee: Callable[[ToolContext, dict[str, Any]], str] | None = None
    """Describe the effect, without causing it, before a person is asked. A `ToolError` becomes its result."""
    weigh: Callable[[dict[str, Any]], str] | None = None
    """A line for the person who approves a call that starts many agents."""
    activity: Callable[[dict[str, Any]], str] | None = None
    """The activity line for a call, if the row's form does not suffice."""

    @property
    def row(self) -> ToolRow:
        """The tool's row in the table."""
        return row_of(self.name)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the tool's input."""
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.parameters), "additionalProperties": False}
        if self.definitions:
            schema["$defs"] = dict(self.definitions)
        return schema | {"required": list(self.required)} if self.required else schema

    @cached_property
    def validator(self) -> Draft202012Validator:
        """The check of input against the schema."""
        from jsonschema import Draft202012Validator

        return Draft202012Validator(self.input_schema)

    def schema(self) -> dict[str, Any]:
        """The tool as the Messages API wants it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def describe_call(self, given: Any) -> str:
        """The activity line for a call, whatever its input is."""
        try:
            line = self.activity(given) if self.activity is not None else self.row.describe(given)
        except (KeyError, TypeError, AttributeError):
            line = self.name
        return line[:_MAX_ACTIVITY_CHARACTERS]
