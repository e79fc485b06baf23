"""The table of harnesses: which adapter runs which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.capabilities.harnesses.adapter import Adapter
from swarm.core.capabilities import load
from swarm.definitions.harness import HarnessKind

if TYPE_CHECKING:
    from swarm.capabilities.harnesses.run import HarnessRun

_ADAPTERS: dict[HarnessKind, str] = {
    "claude-code": "swarm.capabilities.harnesses.claude_code:ClaudeCode",
    "codex": "swarm.capabilities.harnesses.codex:Codex",
    "opencode": "swarm.capabilities.harnesses.opencode:OpenCode",
    "gemini": "swarm.capabilities.harnesses.gemini_cli:GeminiCli",
    "acp": "swarm.capabilities.harnesses.acp:AcpClient",
}


def make_adapter(kind: HarnessKind, run: HarnessRun) -> Adapter:
    """Make the adapter of a run."""
    made: Adapter = load(_ADAPTERS[kind])(run)
    return made
