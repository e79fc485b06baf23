"""OpenCode, by the Agent Client Protocol: `opencode acp`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from swarm.agent.harnesses import NOT_RUN
from swarm.capabilities.harnesses.acp import AcpClient
from swarm.capabilities.harnesses.adapter import URL, ProgramStart

_MODEL = {"tool_call": True, "reasoning": True}


class OpenCode(AcpClient):
    """One run of `opencode acp`."""

    session_files: ClassVar[tuple[str, ...]] = (
        ".local/share/opencode/opencode*.db",
        ".local/share/opencode/opencode*.db-wal",
    )

    lacking: ClassVar[str] = NOT_RUN

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        run = self.run
        vendor, name = run.vendor_and_model
        provider = {"options": {"baseURL": f"{URL}/v1", "apiKey": run.token}, "models": {name: _MODEL}}
        # Its own agents are switched off; everything else is asked about, and decided here.
        permission: dict[str, Any] = {"*": "ask"} if run.harness.subagents else {"*": "ask", "task": "deny"}
        if vendor:
            provider["npm"] = "@ai-sdk/openai-compatible"
        key = "swarm" if vendor else "anthropic"
        settings = {
            "provider": {key: provider},
            "enabled_providers": [key],
            "model": f"{key}/{name}",
            "small_model": f"{key}/{name}",
            "permission": permission,
            "share": "disabled",
            "autoupdate": False,
            "experimental": {"continue_loop_on_deny": True},
        }
        if run.history.system:
            settings["instructions"] = [str(given / "instructions.md")]
        environment = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }
        return ProgramStart([program, "acp"], environment, {"instructions.md": run.history.system})
