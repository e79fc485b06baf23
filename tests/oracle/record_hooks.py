"""Asks Claude Code's CLI about outputs of hooks and writes its answers: `python -m tests.oracle.record_hooks [EVENT …]`.

`SWARM_ORACLE_CLAUDE` names the program; without it, `claude` on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from swarm.rehearsal.scenario import Scenario, ScenarioRule, ScriptedCall, ScriptedReply, When
from swarm.rehearsal.server import RehearsalServer
from tests.oracle.hook_cases import EVENTS, Effect, Output, cases, command_of, read_effect

ANSWERS = Path(__file__).with_name("hooks.json")
_SECONDS = 300


def find_program() -> str | None:
    """Return the CLI's program; None if there is none here."""
    return os.environ.get("SWARM_ORACLE_CLAUDE") or shutil.which("claude")


def ask(program: str, event: str, output: Output) -> Effect:
    """Run the CLI once with a hook that gives this output."""
    with TemporaryDirectory(prefix="oracle-hooks-") as folder:
        home, workspace = Path(folder) / "h", Path(folder) / "w"
        (workspace / ".claude").mkdir(parents=True)
        (home / ".claude").mkdir(parents=True)
        guard = (
            "case $(cat) in *'\"stop_hook_active\":true'*) exit 0;; esac; " if event == "Stop" else "cat >/dev/null; "
        )
        # The CLI shows its model the command of a hook that refuses, so the output stands in files.
        files = {
            "out": output.out,
            "err": output.err,
            "hook": f"{guard}cat {home}/out; cat {home}/err >&2; exit {output.code}",
        }
        for name, text in files.items():
            (home / name).write_text(text)
        table = {event: [{"hooks": [{"type": "command", "command": f". {home}/hook"}]}]}
        settings = {"hooks": table, "permissions": {"allow": ["Bash"]}}
        (home / ".claude/settings.json").write_text(json.dumps(settings))
        (home / ".claude.json").write_text(json.dumps({"projects": {str(workspace): {"hasTrustDialogAccepted": True}}}))
        call = ScriptedCall(name="Bash", input={"command": command_of(event), "description": "a command"})
        steps = (
            ScenarioRule(when=When(turn=0), reply=ScriptedReply(text="{last_text}", tools=(call,))),
            ScenarioRule(reply=ScriptedReply(text="{last_text}\n{last_result}")),
        )
        server = RehearsalServer(Scenario(name="oracle", rules=steps))
        environment = {
            **{"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": server.url},
            **{
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
        }
        with closing(server.start()):
            done = subprocess.run(
                [program, "-p", "go", "--output-format", "stream-json", "--verbose", "--max-turns", "12"],
                **{"cwd": workspace, "env": environment, "stdin": subprocess.DEVNULL, "timeout": _SECONDS},
                capture_output=True,
                text=True,
            )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not told:
        raise RuntimeError(f"{event}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return _read(told)


def _read(told: list[dict[str, Any]]) -> Effect:
    blocks = [
        block
        for one in told
        if one["type"] in ("user", "assistant") and isinstance(one["message"]["content"], list)
        for block in one["message"]["content"]
    ]
    [*results] = [block for block in blocks if block["type"] == "tool_result"]
    replies = {
        one["message"]["id"] for one in told if one["type"] == "assistant" and one["message"]["model"] != "<synthetic>"
    }
    read = "\n".join(
        block["text"]
        for one in told
        if one["type"] == "assistant" and one["message"]["model"] != "<synthetic>"
        for block in one["message"]["content"]
        if block["type"] == "text"
    )
    result = json.dumps(results[0]["content"]) if results else None
    return read_effect(result, bool(results and results[0].get("is_error")), read, len(replies))


def main(events: list[str]) -> None:
    """Write the answers about these events, or about all."""
    program = find_program()
    if program is None:
        raise SystemExit(
            "there is no `claude`: npm install @anthropic-ai/claude-code, and name it in SWARM_ORACLE_CLAUDE"
        )
    known: dict[str, Any] = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    wanted = [case for case in cases() if case[0] in (events or EVENTS)]
    with ThreadPoolExecutor(2) as pool:
        for (event, name, _), found in zip(
            wanted, pool.map(lambda one: ask(program, one[0], one[2]), wanted), strict=True
        ):
            known.setdefault(event, {})[name] = found._asdict()
            print(event, name, *found, file=sys.stderr)
    known["version"] = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    ANSWERS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
