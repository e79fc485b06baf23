"""The tool port: what a tool is, what it is given, what it returns.

A tool is a name, a JSON schema and a function. It acts only through its `ToolContext`; what it raises as `ToolError`
becomes an error result for the model. Effects decide what happens after a crash: a tool without effects is run again,
one with effects never silently is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from swarm.errors import ToolError

MAX_OUTPUT_CHARACTERS = 50_000
"""How much of one result enters the conversation; the rest is kept and read by page."""


class ToolResult(BaseModel):
    """What a tool gives back to the model."""

    model_config = ConfigDict(frozen=True)

    text: str
    is_error: bool = False
    blocks: list[dict[str, Any]] | None = None
    """Content blocks (an image, say) that replace `text` in the API's `tool_result`; `text` is still logged."""


class Outputs(Protocol):
    """Where text that is too long for the conversation is kept, per agent."""

    def keep(self, key: str, text: str) -> str:
        """Keep `text` and return its handle, `output:KEY`."""
        ...

    def load(self, handle: str) -> str | None:
        """The text kept under `handle`, or None."""
        ...


class Peers(Protocol):
    """The other agents, as far as one agent may see and stop them."""

    def list_agents(self) -> str:
        """The caller's own subtree as it stands, as text."""
        ...

    def stop_agent(self, who: str, reason: str) -> str:
        """Stop an agent below the caller, by id or name, and say what became of it. Raises `ToolError`."""
        ...


class Board(Protocol):
    """The job's task board, on behalf of one agent. `cause` is the call's id: a repeat answers the same. All raise `ToolError`."""

    def add_task(self, cause: str, given: Mapping[str, Any]) -> str:
        """Add a task (`subject`, `description?`, `role?`, `blocked_by?`) and name its number."""
        ...

    def list_tasks(self, state: str | None) -> str:
        """A line for each task."""
        ...

    def show_task(self, number: int) -> str:
        """Everything about one task."""
        ...

    def claim_task(self, cause: str, number: int | None) -> str:
        """Take a task and show it."""
        ...

    def update_task(self, cause: str, given: Mapping[str, Any]) -> str:
        """Change the task `task_id`."""
        ...

    def complete_task(self, cause: str, number: int, result: str) -> str:
        """Complete a task, and say what it unblocked."""
        ...


class Pad(Protocol):
    """The job's scratchpad, on behalf of one agent. All raise `ToolError`."""

    def write_page(self, cause: str, page: str, content: str, if_version: int | None) -> str:
        """Replace a page."""
        ...

    def append_to_page(self, cause: str, page: str, content: str) -> str:
        """Add to the end of a page."""
        ...

    def delete_page(self, cause: str, page: str, if_version: int | None) -> str:
        """Remove a page."""
        ...

    def read_page(self, page: str) -> tuple[str, str]:
        """What is known about a page, in a line, and its text."""
        ...

    def list_pages(self, prefix: str) -> str:
        """A line for each page."""
        ...


class Team(Protocol):
    """The job's team, on behalf of its lead. Both raise `ToolError`."""

    def create_team(self, cause: str, name: str, description: str) -> str:
        """Found the team."""
        ...

    def delete_team(self, cause: str, *, force: bool) -> str:
        """Dissolve it, and say who was stopped."""
        ...


@dataclass
class ToolContext:
    """The world one agent's tools act in. One per segment; never shared between agents."""

    agent_id: str
    job_id: str
    workspace: Path
    """The root that no path may leave; absolute and resolved."""
    tool_use_id: str
    outputs: Outputs
    read_only: bool = False
    """The agent may change nothing."""
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → mtime in ns when this agent last read or wrote it; rebuilt from the journal after a crash."""
    scratch: Path | None = None
    """A private temporary folder for the agent's processes; made on first use."""
    environment: dict[str, str] = field(default_factory=dict)
    """Extra variables for the agent's processes, beyond what survives the cleaning."""
    peers: Peers | None = None
    may_read: Callable[[Path], bool] | None = None
    """Whether a file may be read, for tools that search many; None: all of the workspace may."""
    board: Board | None = None
    pad: Pad | None = None
    team: Team | None = None
    check: Callable[[], None] = lambda: None
    """Long-running tools call this about once a second; it raises when the agent must stop."""


@dataclass(frozen=True)
class Tool:
    """One tool: its face to the model, and the function behind it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    run: Callable[[ToolContext, dict[str, Any]], ToolResult]
    """Called with input already validated against `input_schema`; raises `ToolError`."""
    effects: bool = True
    """Whether running it twice could differ from running it once."""
    activity: Callable[[dict[str, Any]], str] | None = None
    """The activity line for a call, e.g. `Read src/app.py`."""

    def schema(self) -> dict[str, Any]:
        """The tool as the Messages API wants it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


def runtime_only(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The function of a tool that the runtime carries out itself; it is never reached. Raises `ToolError`."""
    raise ToolError("This call is carried out by the runtime.")


def repeatable_tool(name: str, description: str, properties: dict[str, Any], required: list[str], **rest: Any) -> Tool:
    """A tool whose call may be made again, because its cause tells a repeat; `rest` are further fields of `Tool`."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return Tool(name=name, description=description, input_schema=schema, effects=False, **rest)
