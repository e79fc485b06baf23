"""Asks Codex's own CLI what its command rules decide. `SWARM_ORACLE_CODEX` names the program; without it, `codex` on PATH."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from swarm.permissions.codex_rules import read_codex_rules
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.rules import Rules
from tests.oracle.world import HERE, two_folders

CASES: dict[str, Any] = yaml.safe_load((HERE / "codex.yaml").read_text())
MEANINGS = {"forbidden": "deny", "prompt": "ask", "allow": "allow", "none": "look"}
"""Codex's decisions, in our words; without a rule neither allows."""


def find_program() -> str | None:
    """Return the CLI's program; None if there is none here."""
    return os.environ.get("SWARM_ORACLE_CODEX") or shutil.which("codex")


def ask_codex(program: str) -> dict[str, str]:
    """Return Codex's decisions by command."""
    with two_folders() as (workspace, home):
        file = workspace / "cases.rules"
        file.write_text(CASES["rules"])
        check = [program, "execpolicy", "check", "--rules", str(file)]
        told = {
            command: subprocess.run(
                [*check, *shlex.split(command)],
                env={"PATH": os.environ["PATH"], "HOME": str(home)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for command in CASES["commands"]
        }
        return {command: json.loads(answer).get("decision", "none") for command, answer in told.items()}


def decide_as_codex() -> dict[str, str]:
    """Return our decisions by command, from the same rules."""
    rules, problems = read_codex_rules(CASES["rules"], "a test")
    assert not problems
    judged = {
        command: judge(
            JudgedCall("Bash", {"command": command}, Rules(rules=tuple(rules)), "default", Path("/w"), False)
        )
        for command in CASES["commands"]
    }
    return {command: "look" if verdict.look else verdict.action for command, verdict in judged.items()}
