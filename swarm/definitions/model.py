"""What an agent is made from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_TYPE = "general-purpose"
"""What is started when no type is named."""
Mode = Literal["primary", "subagent", "all"]
PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "bubble"]


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
    network: bool = False
    """Its processes may use the network."""
    background: bool = False
    effort: str | None = None
    result_schema: dict[str, Any] | None = None
    """A JSON schema that the final answer must satisfy."""
    source: str = "shipped"
    """`shipped`, or the file it was read from."""
    warnings: list[str] = []
    """What its reader understood only in part."""
