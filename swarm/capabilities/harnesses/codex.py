"""Codex, by the Agent Client Protocol: `codex-acp`, which speaks OpenAI's Responses to its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from swarm.capabilities.harnesses.acp import AcpClient
from swarm.capabilities.harnesses.adapter import HOME, URL, Launch


class Codex(AcpClient):
    """One run of `codex-acp`."""

    session_files: ClassVar[tuple[str, ...]] = (".codex/sessions/*/*/*/*.jsonl",)
    keeps_each_call: ClassVar[bool] = True

    def launch(self, program: str, given: Path, *, resumes: bool) -> Launch:
        run = self.run
        _, model = run.vendor_and_model
        provider = {"name": "swarm", "base_url": f"{URL}/v1", "wire_api": "responses", "env_key": "SWARM_MODEL_TOKEN"}
        settings = {
            "model": model,
            "model_provider": "swarm",
            "model_providers": {"swarm": provider},
            "developer_instructions": run.history.system,
        }
        environment = {
            "CODEX_CONFIG": json.dumps(settings),
            "CODEX_HOME": f"{HOME}/.codex",
            "INITIAL_AGENT_MODE": "read-only",
            "MODEL_PROVIDER": "swarm",
            "NO_BROWSER": "1",
            "SWARM_MODEL_TOKEN": run.token,
        }
        return Launch([program], environment, home_files={".codex/config.toml": "check_for_update_on_startup = false\n"})
