"""What the tests of the tools share: a workspace, a context for it, and outputs kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.tools import ToolContext, ToolResult
from swarm.tools.registry import builtin_tools, validate_input


class KeptOutputs:
    """Outputs in a dictionary."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def keep(self, key: str, text: str) -> str:
        self.texts[f"output:{key}"] = text
        return f"output:{key}"

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
        tool = builtin_tools()[name]
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
    given: dict[str, Any] = {"scratch": scratch, "tool_use_id": "toolu_1", **changes}
    return World(
        ToolContext(agent_id="agent-1", job_id="job-1", workspace=workspace, outputs=outputs, **given), outputs
    )
