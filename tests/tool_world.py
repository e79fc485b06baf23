"""What the tests of the tools share: a workspace, a context for it, and outputs kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.definitions.model import AgentDefinition
from swarm.definitions.tools import row_of
from swarm.store.connection import connect
from swarm.store.store import Store
from swarm.store.values import KeptOutput
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.registry import load_tool, validate_input


class KeptOutputs:
    """Outputs in a dictionary."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def keep(self, key: str, text: str) -> KeptOutput:
        self.texts[f"output:{key}"] = text
        return KeptOutput()

    def load(self, handle: str) -> str | None:
        return self.texts.get(handle)


@dataclass
class World:
    """One agent's context, with a short way to call its tools."""

    ctx: ToolContext
    outputs: KeptOutputs = field(default_factory=KeptOutputs)

    @property
    def root(self) -> Path:
        return self.ctx.workspace

    def call(self, name: str, **given: Any) -> ToolResult:
        tool = tool_named(name)
        assert tool.run is not None
        return tool.run(self.ctx, validate_input(tool, given))

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def make_world(folder: Path, **changes: Any) -> World:
    """A new agent whose workspace and scratch folder are below `folder`."""
    workspace = (folder / "work").resolve()
    workspace.mkdir(exist_ok=True)
    outputs = KeptOutputs()
    scratch = folder / "scratch" / "agent-1"
    read_only = changes.pop("read_only", False)
    spec = AgentSpec(
        agent_id="agent-1",
        job_id="job-1",
        definition=AgentDefinition(name="x", description="d", prompt="p", read_only=read_only),
        description="d",
        prompt="p",
        model="m",
        workspace=str(workspace),
    )
    given: dict[str, Any] = {"scratch": scratch, "tool_use_id": "toolu_1", **changes}
    # What these tools do needs no Redis; one that asked for it would fail here.
    store = Store(connect("unix:///nowhere"))
    context = ToolContext(spec, store=store, publish=print, workspace=workspace, outputs=outputs, **given)
    return World(context, outputs)


def tool_named(name: str) -> Tool:
    """A tool of the table."""
    return load_tool(row_of(name).home)
