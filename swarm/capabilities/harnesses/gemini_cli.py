"""Gemini CLI, by the Agent Client Protocol: `gemini --acp`.

A policy of ours has it ask about every call. It reports no inputs: the words of a command are a call's title, a file is its
place. Nor does it report the contents of files that it reads. Its record is not carried: a session that is loaded sends the results of its
calls twice, and one that is loaded in the minute of its start is emptied. So each run begins with all that the journal knows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from swarm.agent.harnesses import NOT_RUN
from swarm.capabilities.harnesses.acp import AcpClient
from swarm.capabilities.harnesses.adapter import HOME, URL, ProgramStart
from swarm.models.vendors import split_model

_TOOLS = ("run_shell_command", "read_file", "write_file", "replace", "glob", "grep_search", "list_directory")
"""Tools for files and commands that name what they touch. The others need the network, a person, or agents of its own."""
# A rule with a pattern for the arguments holds for commands that the program takes for harmless, too.
_POLICY = '[[rule]]\ntoolName = "*"\nargsPattern = "."\ndecision = "ask_user"\npriority = 999\n'
_COMMANDS = ("/", "$")
"""Beginnings of prompts that the program takes for commands to itself."""


class GeminiCli(AcpClient):
    """One run of `gemini --acp`."""

    lacking: ClassVar[str] = NOT_RUN
    tells_inputs: ClassVar[bool] = False
    untold: ClassVar[str] = "(The program does not report this result.)"

    def why_unfit(self) -> str:
        model = self.run.spec.model
        found = split_model(model, self.run.segment.settings.vendors)
        if found is None or found[0].wire != "gemini":
            return f"the server of {model} does not speak the Gemini API; use a model of one that does, as gemini:gemini-3-pro"
        return ""

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        run = self.run
        _, name = run.vendor_and_model
        tools = list(_TOOLS) if run.tools_allowed else []
        settings = {
            "tools": {"core": tools, "useRipgrep": False, "shell": {"enableInteractiveShell": False}},
            # All that it asks for beside the conversation extends this one.
            "modelConfigs": {"customOverrides": [{"match": {"model": "base"}, "modelConfig": {"model": name}}]},
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "plan": {"enabled": False},
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"folderTrust": {"enabled": True}, "disableYoloMode": True},
            "skills": {"enabled": False},
            "experimental": {"enableAgents": False},
        }
        environment = {
            "GEMINI_CLI_HOME": HOME,
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(given / "settings.json"),
            # Settings, hooks and servers of the repository are not read.
            "GEMINI_CLI_TRUST_WORKSPACE": "false",
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GOOGLE_GEMINI_BASE_URL": URL,
            "GEMINI_API_KEY": run.token,
        }
        argv = [program, "--acp", "--model", name, "--admin-policy", str(given / "policy.toml")]
        files = {"settings.json": json.dumps(settings), "policy.toml": _POLICY}
        instructions = {".gemini/GEMINI.md": run.history.system} if run.history.system else {}
        return ProgramStart(argv, environment, files, instructions)

    def phrase(self, prompt: str) -> str:
        return f"The task:\n\n{prompt}" if prompt.lstrip().startswith(_COMMANDS) else prompt
