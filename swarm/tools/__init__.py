"""The tool port: what a tool is, what it is given, what it returns.

A tool is a name, a schema and a function, and a row of `swarm.definitions.tools`, which says what the rest of the project must know of
it. It acts only through its `ToolContext`; what it raises as `ToolError` becomes an error result for the model.
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
from swarm.store.values import Signals
from swarm.tools.outputs import Outputs
from swarm.workspace import shown
from swarm.workspace.merge import Strategy

if TYPE_CHECKING:
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
    """Tools that the server itself carries out."""


Consult = Callable[[Consultation], Reply]
"""Makes the request. Raises `ToolError` where the job cannot pay for it, and `ModelError` where the model fails."""


@dataclass(frozen=True)
class Hold:
    """What the process of one call is held to, where that is not what its agent's shell is held to."""

    read_only: bool = False
    """It may change nothing, whatever the agent may."""
    network: bool = False
    """It may use the network, as far as the worker allows any."""
    readable: tuple[Path, ...] = ()
    """Further files and folders that it must see."""
    home: Path | None = None
    """Its HOME and TMPDIR, where they are not the agent's."""
    looks: bool = False
    """It is tried where nothing can come of it: the agent's HOME can only be read, TMPDIR is `home`, and what rules deny is hidden."""
    needed: bool = True
    """It runs in a sandbox or not at all; else, where there is none, as the agent's shell would."""


class ToolResult(BaseModel):
    """What a tool gives back to the model."""

    model_config = ConfigDict(frozen=True)

    text: str
    is_error: bool = False
    blocks: list[dict[str, Any]] | None = None
    """Content blocks (an image, say) that replace `text` in the API's `tool_result`; `text` is still logged."""
    held: tuple[str, ...] = ()
    """What a command changed that programs outside of its sandbox would obey, and what was done with it; `text` says it, too."""
    commit: str = ""
    """What the workspace holds after the call, if it was merged into."""
    servers: dict[str, str] = {}
    """The MCP server that carried the call out → which start of it that was."""


class AwaitsAnswer(Exception):
    """In the middle of a call somebody must be asked: the agent parks, and the call is carried on with once there is an answer."""

    def __init__(self, question_id: str, ask: Ask, tool_use_id: str) -> None:
        super().__init__(ask.title)
        self.question_id, self.ask, self.tool_use_id = question_id, ask, tool_use_id


class ServerPort(Protocol):
    """What tools may ask of an agent's MCP servers."""

    def names(self, what: str) -> list[str]:
        """The servers that offer `resources`, or `prompts`."""

    def ask(self, server: str, request: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """What a server says. Raises `ToolError`."""

    def deferred(self) -> list[dict[str, Any]]:
        """The schemas of the agent's tools that a model must search for."""


@dataclass
class ToolContext:
    """The world one call acts in; never shared between agents."""

    spec: AgentSpec
    store: Store
    publish: Callable[[Signals | None], None]
    """Carries out what a step of the store asks for: wakes, stops."""
    tool_use_id: str
    workspace: Path
    """The root that no path may leave; absolute and resolved."""
    outputs: Outputs
    generation: int = 0
    """Of the agent's claim; 0: there is none."""
    folders: tuple[Path, ...] = ()
    """Further folders that the agent may work in; a call that is about a path of one of them has it as its `workspace`."""
    mode: PermissionMode = "default"
    """The permission mode in force."""
    after_plan: PermissionMode | None = None
    """The most that is permitted once a plan is approved; None: plan mode cannot be left."""
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → mtime in ns when this agent last read or wrote it; rebuilt from the journal after a crash."""
    scratch: Path | None = None
    """A private temporary folder for the agent's processes; made on first use."""
    environment: dict[str, str] = field(default_factory=dict)
    """Extra variables for the agent's processes, beyond what survives the cleaning."""
    readable: tuple[Path, ...] = ()
    """Folders outside of the workspace that its processes may read."""
    confine: Confine | None = None
    """None: nothing confines this agent's processes, so a read-only agent has none."""
    hold: Hold | None = None
    """Of a call whose process must be in a sandbox: what that holds it to. None: as the agent's shell."""
    tell: Callable[[str], None] = lambda line: None
    """Says in a line what the call is doing, for people who watch."""
    may_read: Callable[[Path], bool] | None = None
    """Whether a file may be read, for tools that search many; None: all of the workspace may."""
    merge: Callable[[AgentView, Strategy], ToolResult] | None = None
    """Merges what a child did in a copy of its own."""
    start_members: StartMembers | None = None
    """Starts the members of the team that the caller leads."""
    check: Callable[[], None] = lambda: None
    """Long-running tools call this about once a second; it raises when the agent must stop."""
    now: Callable[[], float] = time.time
    """The server's clock: the time that calls wait by."""
    waited: Condition | None = None
    """What the call has waited for, once that has come."""
    consult: Consult | None = None
    """Asks a small model, at the job's expense."""
    exchange: Exchange | None = None
    """Of an agent that is a program: what it is told while it runs, and tells others."""
    skill_file: Callable[[str], bytes] | None = None
    """A file of one of the job's skills, by the path that agents know it by; None: there are none."""
    reach: Callable[[], Reach] | None = None
    """What may be fetched from; None: this worker's agents have no network."""
    servers: ServerPort | None = None
    """The agent's MCP servers."""
    servers_seen: Mapping[str, str] = field(default_factory=dict)
    """Which start of each server carried out the agent's last call of it."""

    @property
    def agent_id(self) -> str:
        """Whose call it is."""
        return self.spec.agent_id

    @property
    def job_id(self) -> str:
        """The job that the agent belongs to."""
        return self.spec.job_id

    def ask(self, consultation: Consultation) -> Reply:
        """Ask a small model, at the job's expense. Raises `ToolError` where it cannot be paid for, and `ModelError`."""
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
        """The same however often the call is delivered."""
        return f"{self.agent_id}/{self.tool_use_id}"

    @property
    def cause(self) -> str:
        """For a step in Redis, which then changes something once, and nothing once the agent is somebody else's."""
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
    """Of the kind `WAIT`: what is to be waited for. `run` then says how it stands; `ToolContext.waited` tells what came."""
    ask: Callable[[ToolContext, dict[str, Any]], Ask] | None = None
    """Of the kind `ASK`: the question."""
    activity: Callable[[dict[str, Any]], str] | None = None
    """The activity line for a call, where the row's form does not do."""

    @property
    def row(self) -> ToolRow:
        """What the rest of the project knows of it."""
        return row_of(self.name)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its input."""
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.parameters), "additionalProperties": False}
        if self.definitions:
            schema["$defs"] = dict(self.definitions)
        return schema | {"required": list(self.required)} if self.required else schema

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
