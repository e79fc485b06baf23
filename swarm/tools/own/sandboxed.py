"""A call of a function as a process of its own in the agent's sandbox: JSON in, JSON out, and nothing left of it at its end.

It sees the workspace, and may change it unless the tool or the agent only reads; it has no secret in its environment, and a network
only if the tool says that it needs one and the worker allows that.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.definitions.own import child
from swarm.definitions.own.declaration import Declaration
from swarm.definitions.own.results import Rendered
from swarm.definitions.tools import Kind
from swarm.tools import Hold, ToolContext
from swarm.tools.processes import ProcessResult, run_command

log = EventLog("swarm.tools")
_TAIL = 2_000


def run_sandboxed(
    declaration: Declaration, context: ToolContext, given: dict[str, Any]
) -> tuple[Rendered, tuple[str, ...]]:
    """Return the result, and the held files that other programs would obey. Raises `ToolError`."""
    if context.confine is None:
        raise ToolError(f"{declaration.row.name} runs in a sandbox only, and there is none here")
    row, mark = declaration.row, secrets.token_hex(8)
    hold = Hold(read_only=row.kind is Kind.LOOK, network=row.network, readable=tuple(_importable()))
    confine, context = context.confine, replace(context, hold=hold)
    argv = confine(context, [sys.executable, "-I", str(Path(child.__file__).resolve())])
    told = _ProgressLines(context, row.name, mark)
    call = json.dumps(_describe(declaration, context, given, mark))
    outcome = run_command(
        context, call, None, declaration.timeout_seconds, argv=argv, hook_state=told.take, overtime_seconds=5.0
    )
    told.take(outcome.output)
    return _read(declaration, context, outcome, mark), outcome.held


def _describe(declaration: Declaration, context: ToolContext, given: dict[str, Any], mark: str) -> dict[str, Any]:
    return {
        "home": declaration.row.home,
        "given": given,
        "mark": mark,
        "path": [str(Path(entry).resolve()) for entry in sys.path if entry],
        "context": {
            "tool": declaration.row.name,
            "agent_id": context.agent_id,
            "job_id": context.job_id,
            "depth": context.spec.depth,
            "workspace": str(context.workspace),
            "read_only": context.read_only,
            "idempotency_key": context.idempotency_key,
        },
    }


def _importable() -> Iterator[Path]:
    """Yield the folders that the function's process imports from. Never a home, nor a folder that holds one."""
    home = Path.home().resolve()
    for folder in dict.fromkeys(Path(entry).resolve() for entry in sys.path if entry):
        if folder.exists() and not home.is_relative_to(folder):
            yield folder


def _read(declaration: Declaration, context: ToolContext, outcome: ProcessResult, mark: str) -> Rendered:
    name = declaration.row.name
    for kind, said in _said(outcome.output, mark):
        match kind:
            case "r":
                return Rendered.model_validate(said)
            case "e":
                raise ToolError(said["text"])
            case "b":
                log.error("tool.broke", agent_id=context.agent_id, tool=name, traceback=said["traceback"])
                raise ToolError(f"The tool {name} failed unexpectedly: {said['error']}")
    if outcome.timed_out:
        raise ToolError(f"{name} did not end within {declaration.timeout_seconds:g} s and was killed.")
    tail = outcome.output[-_TAIL:].decode("utf-8", "replace")
    log.error("tool.broke", agent_id=context.agent_id, tool=name, exit_code=outcome.exit_code, output=tail)
    lost = " (its result exceeds the limit for a sandbox)" if outcome.discarded_bytes else ""
    raise ToolError(f"The tool {name} ended without a result: exit code {outcome.exit_code}{lost}.")


def _said(output: bytes, mark: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in output.decode("utf-8", "replace").split("\n"):
        if line.startswith(mark):
            try:
                yield line[len(mark)], json.loads(line[len(mark) + 1 :])
            except (ValueError, IndexError):  # cut off, or still being written
                continue


class _ProgressLines:
    """Passes on lines of progress as they arrive."""

    def __init__(self, context: ToolContext, name: str, mark: str) -> None:
        self._context, self._name, self._mark = context, name, mark
        self._told = 0

    def take(self, output: bytes) -> None:
        """All that the process has said so far."""
        lines = [str(said["line"]) for kind, said in _said(output, self._mark) if kind == "p"]
        for line in lines[self._told :]:
            self._context.tell(f"{self._name}: {line}")
        self._told = len(lines)
