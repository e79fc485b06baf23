"""The shell tools: Bash, and BashOutput and KillShell for commands in the background.

A command runs in a session of its own under a supervisor (`swarm.tools.launcher`), and nothing that it started outlives
it: not after its end, not after its time limit, not after the death of the worker.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.core.errors import ToolError
from swarm.definitions.tools import SHELL, row_of
from swarm.permissions.sandbox.backend import WORK_ON_ITSELF
from swarm.permissions.sandbox.host import own_folders
from swarm.permissions.sandbox.obeyed import HELD
from swarm.tools import Hold, Tool, ToolContext, ToolResult
from swarm.tools.background import find_shell, kill_shell, shell_state, start_shell, take_output
from swarm.tools.outputs import fit
from swarm.tools.processes import MAX_OUTPUT_BYTES, ProcessResult, hold_planted, run_command, scratch_folder
from swarm.tools.ripgrep import filter_lines
from swarm.tools.schemas import boolean, integer, string
from swarm.workspace import shown
from swarm.workspace.private import remove_folder

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = int((row_of(SHELL).timeout_seconds or 600) * 1000)
LOOK_SECONDS = 10.0
LOOKED = "[looked: files were read-only, there was no network; with `changes` it is run for real]"
_MAX_HELD = 20
_MAX_REFUSAL = 300
_NOT_GIVEN = (
    rb"Read-only file system|EROFS|Network is unreachable|ENETUNREACH|Could not resolve host|Temporary failure in name resolution"
    rb"|Name or service not known|nodename nor servname|ENOTFOUND|EAI_AGAIN|getaddrinfo|failed to lookup address"
)
_REFUSED = re.compile(_NOT_GIVEN, re.IGNORECASE)
"""Output of programs that failed because of a trial run's limits, in a sandbox …"""
_FAILED = re.compile(
    _NOT_GIVEN
    + rb"|Permission denied|Operation not permitted|EACCES|EPERM|Connection refused|ECONNREFUSED|Failed to connect",
    re.IGNORECASE,
)
"""… and output that counts only if the command failed."""


def run_shell(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Run a command to its end, or start it in the background."""
    if ctx.read_only and ctx.confine is None:
        raise ToolError("this agent is read-only, and this host has no sandbox that would keep a shell from writing")
    if "\0" in given["command"]:
        raise ToolError("the command contains a NUL character")
    command = _after_profile(ctx, given["command"])
    if given.get("run_in_background"):
        shell = start_shell(ctx, command, ctx.confine)
        return ToolResult(text=f"Started in the background as {shell.id}; BashOutput reads it, KillShell ends it.")
    limit_seconds = _limit(given, MAX_TIMEOUT_MS / 1000)
    return _told(ctx, run_command(ctx, command, ctx.confine, limit_seconds), limit_seconds)


def try_look(ctx: ToolContext, given: dict[str, Any]) -> ToolResult | str:
    """Try a command without effects; return its result, or one line that says why that did not suffice."""
    folder = Path(tempfile.mkdtemp(prefix="look-", dir=scratch_folder(ctx)))
    try:
        looking = replace(ctx, hold=Hold(read_only=True, home=folder, looks=True))
        command = _after_profile(ctx, given["command"])
        outcome = run_command(looking, command, ctx.confine, _limit(given, LOOK_SECONDS))
    finally:
        remove_folder(folder)
    if outcome.timed_out:
        return f"it did not end within {_limit(given, LOOK_SECONDS):g} s"
    refused = (_REFUSED if outcome.exit_code == 0 else _FAILED).search(outcome.output)
    if refused is not None:
        begin, end = outcome.output.rfind(b"\n", 0, refused.start()) + 1, outcome.output.find(b"\n", refused.end())
        line = outcome.output[max(begin, refused.start() - _MAX_REFUSAL) : end if end >= 0 else None]
        return " ".join(_text(line[: 2 * _MAX_REFUSAL]).split())[:_MAX_REFUSAL]
    told = _told(ctx, outcome, LOOK_SECONDS)
    return told.model_copy(update={"text": f"{told.text}\n{LOOKED}"})


def run_look(ctx: ToolContext, given: dict[str, Any], argv: list[str]) -> ToolResult:
    """Run a program that only looks, without a shell."""
    limit_seconds = _limit(given, MAX_TIMEOUT_MS / 1000)
    return _told(ctx, run_command(ctx, "", None, limit_seconds, argv=argv), limit_seconds)


def _after_profile(ctx: ToolContext, command: str) -> str:
    # `eval` keeps a fault of that text from ending the shell.
    return f"eval {shlex.quote(ctx.profile)}\n{command}" if ctx.profile else command


def _limit(given: dict[str, Any], most: float) -> float:
    return min(int(given.get("timeout", DEFAULT_TIMEOUT_MS)) / 1000, most)


def _activity(given: dict[str, Any]) -> str:
    words = str(given.get("description") or given["command"]).strip().partition("\n")[0]
    return words if len(words) <= 60 else f"{words[:59]}…"


def _told(ctx: ToolContext, outcome: ProcessResult, limit_seconds: float) -> ToolResult:
    output = _text(outcome.output)
    lines = [fit(ctx.outputs, ctx.tool_use_id, output) if output else "(no output)"]
    lines += _discarded(outcome.discarded_bytes)
    if outcome.timed_out:
        lines.append(
            f"[ended after {limit_seconds:g} s, its time limit; give a longer timeout, or use run_in_background]"
        )
    if outcome.exit_code:
        lines += _on_itself(ctx, outcome.output)
        lines.append(f"[exit code {outcome.exit_code}]")
    lines += _held(outcome.held)
    failed = bool(outcome.exit_code) or outcome.timed_out
    return ToolResult(text="\n".join(lines), is_error=failed, held=outcome.held)


def _held(held: tuple[str, ...]) -> list[str]:
    """Return the note about undone changes that the agent must report."""
    if not held:
        return []
    more = [f"- … and {len(held) - _MAX_HELD:,} more"] if len(held) > _MAX_HELD else []
    return [
        "[held: programs outside of the sandbox (git, editors, other agents) would obey these files:",
        *(f"- {line}" for line in held[:_MAX_HELD]),
        *more,
        f"Nothing is lost: each keeps its content under a name that ends in {HELD}. Say so in your answer; a person who has "
        "read it may rename it back. Settings that are wanted are written with Write or Edit, which ask.]",
    ]


def _on_itself(ctx: ToolContext, output: bytes) -> list[str]:
    own = own_folders([ctx.workspace]) if b"Read-only file system" in output else ()
    if not own:
        return []
    names = ", ".join(shown(ctx.workspace, path) for path in own)
    return [f"[read-only here, because it is what runs this agent: {names}. {WORK_ON_ITSELF}.]"]


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\n")


def _discarded(count: int) -> list[str]:
    if not count:
        return []
    return [f"[{count:,} bytes after the first {MAX_OUTPUT_BYTES:,} were discarded; redirect such output to a file]"]


def read_output(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Return a background command's new output and its state."""
    scratch = scratch_folder(ctx)
    shell = find_shell(scratch, given["bash_id"])
    # State first: output that is written in between is then shown now or with the next call, never missed.
    state, report = shell_state(scratch, shell)
    output = _text(take_output(scratch, shell.id, ctx.tool_use_id))
    if output and (pattern := given.get("filter")):
        output = filter_lines(ctx, pattern, output) or "(no line matches the filter)"
    lines = [fit(ctx.outputs, ctx.tool_use_id, output) if output else "(no new output)"]
    held: tuple[str, ...] = ()
    if report is not None:
        held = report.held
        lines += [*_discarded(report.discarded_bytes), f"[{shell.id} has ended: exit code {report.exit_code}]"]
    elif state == "running":
        lines.append(f"[{shell.id} is running]")
    else:
        held = hold_planted(shell.watched)
        lines.append(f"[{shell.id} was killed from outside]")
    return ToolResult(text="\n".join([*lines, *_held(held)]), held=held)


def end_shell(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Kill a background command."""
    scratch = scratch_folder(ctx)
    shell = find_shell(scratch, given["shell_id"])
    text = f"Killed {shell.id}." if kill_shell(scratch, shell) else f"{shell.id} had already ended."
    report = shell_state(scratch, shell)[1]
    held = () if report is None else report.held
    return ToolResult(text="\n".join([text, *_held(held)]), held=held)


BASH = Tool(
    name=SHELL,
    description=(
        "Run a command with bash in the workspace and return its output, stdout and stderr together. Every call is "
        "a new shell: a `cd` or a variable of one call does not reach the next. There is no input to answer "
        f"prompts with. The limit is {DEFAULT_TIMEOUT_MS // 1000} s, or `timeout` in milliseconds, at most "
        f"{MAX_TIMEOUT_MS}; processes that still run at a command's end are ended with it. `run_in_background` "
        "is for servers and long builds: it returns an id for BashOutput and KillShell. To find or read "
        "files, prefer Glob, Grep and Read."
    ),
    parameters={
        "command": string("The command line.", minLength=1),
        "timeout": integer("Time limit in milliseconds.", minimum=1),
        "description": string("The command's purpose, in 5 to 10 words."),
        "run_in_background": boolean("Return at once and let it run."),
        "changes": boolean(
            "It changes something or needs the network. Else it may be tried first where it has neither."
        ),
    },
    required=["command"],
    run=run_shell,
    activity=_activity,
)

BASH_OUTPUT = Tool(
    name="BashOutput",
    description=(
        "Return a background shell's output since the last call, and whether it still runs. "
        "`filter` is a regular expression: only lines that match it are returned, the others are dropped."
    ),
    parameters={
        "bash_id": string("The id that Bash returned."),
        "filter": string("Regular expression for lines.", minLength=1),
    },
    required=["bash_id"],
    run=read_output,
)

KILL_SHELL = Tool(
    name="KillShell",
    description="End a background shell and everything that it started.",
    parameters={"shell_id": string("The id that Bash returned.")},
    required=["shell_id"],
    run=end_shell,
)
