"""Asks OpenCode's own CLI what its permission tables decide: its model is the rehearsal server, its home a folder of the test's.

`SWARM_ORACLE_OPENCODE` names the program; without it, `opencode` on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from swarm.capabilities.skills.places import load_skills
from swarm.definitions.names import canonical_tool
from swarm.definitions.tools import row_of
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.opencode_rules import read_opencode_permission
from swarm.permissions.rules import Rules
from swarm.rehearsal.scenario import Scenario, ScenarioRule, ScriptedCall, ScriptedReply, When
from swarm.rehearsal.server import RehearsalServer
from tests.oracle.world import HERE, build_files, fill, two_folders

SETS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "opencode.yaml").read_text())
_SECONDS = 300
_DENIED, _ASKED, _ABSENT = "a rule which prevents you", "rejected permission", "unavailable tool"
_MODEL = {"name": "m", "tool_call": True, "limit": {"context": 200_000, "output": 4_000}}


def find_program() -> str | None:
    """Return the CLI's program; None if there is none here."""
    return os.environ.get("SWARM_ORACLE_OPENCODE") or shutil.which("opencode")


def list_calls(name: str) -> list[tuple[str, str]]:
    """List the calls of a set, each a tool and its subject."""
    return [(tool, str(one)) for tool, listed in SETS[name].items() if tool != "permission" for one in listed]


def ask_opencode(program: str, name: str) -> dict[str, dict[str, str]]:
    """Return the CLI's decisions about a set, by tool and subject."""
    with two_folders() as (workspace, home):
        build_files(workspace)
        calls = list_calls(name)
        steps = [
            ScenarioRule(
                when=When(turn=turn),
                reply=ScriptedReply(
                    tools=(ScriptedCall(name=tool, input=_input(tool, fill(subject, workspace, home), workspace)),)
                ),
            )
            for turn, (tool, subject) in enumerate(calls)
        ]
        steps.append(ScenarioRule(reply=ScriptedReply(text="DONE")))
        server = RehearsalServer(Scenario(name="oracle", rules=tuple(steps)))
        provider = {"options": {"baseURL": f"{server.url}/v1", "apiKey": "none"}, "models": {"m": _MODEL}}
        settings = {
            "permission": SETS[name]["permission"],
            "provider": {"anthropic": provider},
            "model": "anthropic/m",
            "small_model": "anthropic/m",
            "experimental": {"continue_loop_on_deny": True},
        }
        (workspace / "opencode.json").write_text(json.dumps(settings))
        subprocess.run(["git", "init", "-q", workspace], check=True)
        off = dict.fromkeys(("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE"), "1")
        with closing(server.start()):
            done = subprocess.run(
                [program, "run", "--format", "json", "go"],
                cwd=workspace,
                env={"PATH": os.environ["PATH"], "HOME": str(home), **off},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    told = [json.dumps(event["part"]["state"]) for event in events if event["type"] == "tool_use"]
    if len(told) != len(calls):
        raise RuntimeError(f"{len(told)} of {len(calls)} calls were answered: {done.stdout[-2000:]}{done.stderr}")
    found: dict[str, dict[str, str]] = {}
    for (tool, subject), state in zip(calls, told, strict=True):
        found.setdefault(tool, {})[subject] = _decision(state)
    return found


def _decision(state: str) -> str:
    if _DENIED in state or _ABSENT in state:
        return "deny"
    return "ask" if _ASKED in state else "allow"


def decide_as_opencode(name: str) -> dict[str, dict[str, str]]:
    """Return our decisions about a set from the same table, in a mode that allows all else, as OpenCode does."""
    rules, problems = read_opencode_permission(SETS[name]["permission"], source="a test")
    assert not problems
    found: dict[str, dict[str, str]] = {}
    with two_folders() as (workspace, home), patch.dict(os.environ, {"HOME": str(home)}):
        build_files(workspace)
        skills = load_skills(workspace, home, trusted=True)
        for tool, subject in list_calls(name):
            ours = canonical_tool(tool)
            given = _rename(_input(tool, fill(subject, workspace, home), workspace))
            names = skills.names_of(row_of(ours), given)
            known = Rules(rules=tuple(rules))
            judged = JudgedCall(ours, given, known, "bypassPermissions", workspace, sandboxed=False, names=names)
            found.setdefault(tool, {})[subject] = judge(judged).action
    return found


def _input(tool: str, subject: str, workspace: Path) -> dict[str, Any]:
    match tool:
        case "bash":
            return {"command": subject, "description": "a command"}
        case "read":
            return {"filePath": f"{workspace}/{subject}"}
        case "write":
            return {"filePath": subject if subject.startswith("/") else f"{workspace}/{subject}", "content": "y"}
        case "webfetch":
            return {"url": subject, "format": "text"}
        case "skill":
            return {"name": subject}
        case "task":
            return {"description": "d", "prompt": "p", "subagent_type": subject}
    return {"pattern": subject}


def _rename(given: dict[str, Any]) -> dict[str, Any]:
    names = {"filePath": "file_path", "name": "skill"}
    return {names.get(key, key): value for key, value in given.items()}
