"""Asks Claude Code's own CLI: its model is the rehearsal server, its home a folder of the test's.

`SWARM_ORACLE_CLAUDE` names the program; without it, `claude` on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from swarm.rehearsal.scenario import Scenario, ScenarioRule, ScriptedCall, ScriptedReply, When
from swarm.rehearsal.server import RehearsalServer
from tests.oracle.world import PROGRAMS

Call = tuple[str, Mapping[str, Any]]
"""A tool's name, and its input."""
_SECONDS = 300
_KINDS = {"permission-rule": "deny", "user-rejected": "ask"}


class Heard(NamedTuple):
    """What the CLI did."""

    decisions: list[str]
    """For each call: allow, ask or deny; `invalid` if it was refused for another reason."""
    told: str
    """The text that its model was given: the prompt with all that was put before it, and all since the last reply."""


def find_program() -> str | None:
    """Return the CLI's program; None if there is none here."""
    return os.environ.get("SWARM_ORACLE_CLAUDE") or shutil.which("claude")


def read_version(program: str) -> str:
    """Return the CLI's version."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[0]


def ask(program: str, workspace: Path, home: Path, calls: Sequence[Call], *, servers: Iterable[str] = ()) -> Heard:
    """Have the CLI make these calls in a trusted folder, one a turn, with these MCP servers."""
    steps = [
        ScenarioRule(when=When(turn=turn), reply=ScriptedReply(tools=(ScriptedCall(name=name, input=dict(given)),)))
        for turn, (name, given) in enumerate(calls)
    ]
    steps.append(ScenarioRule(reply=ScriptedReply(text="{prompt}\n{last_text}\n{last_result}")))
    programs = home / "bin"
    programs.mkdir(exist_ok=True)
    for name in PROGRAMS:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    serve = {"command": sys.executable, "args": [str(Path(__file__).with_name("odd_server.py"))]}
    trusted = {
        "projects": {str(workspace): {"hasTrustDialogAccepted": True}},
        "mcpServers": dict.fromkeys(servers, serve),
    }
    (home / ".claude.json").write_text(json.dumps(trusted))
    server = RehearsalServer(Scenario(name="oracle", rules=tuple(steps)))
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
        "BASH_DEFAULT_TIMEOUT_MS": "5000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    command = [program, "-p", "go", "--output-format", "stream-json", "--verbose"]
    with closing(server.start()):
        done = subprocess.run(
            command,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    decisions = [_decision(one) for one in events if one["type"] == "user" and "tool_result" in str(one["message"])]
    if len(decisions) != len(calls) or not events:
        raise RuntimeError(f"{len(decisions)} of {len(calls)} calls were answered: {done.stdout[-2000:]}{done.stderr}")
    return Heard(decisions, str(events[-1].get("result", "")))


def _decision(told: dict[str, Any]) -> str:
    meta = (told.get("tool_result_meta") or [{}])[0]
    if kind := _KINDS.get(meta.get("non_execution_kind", "")):
        return kind
    text = json.dumps(told["message"]["content"])
    if "your permission settings" in text or "No such tool" in text:
        return "deny"
    return "allow" if meta.get("permission_decision", {}).get("decision") == "accept" else "invalid"
