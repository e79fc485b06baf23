"""Run an agent that is a program: in the agent's sandbox, with JSON lines on its standard input and output.

The program receives `start` first, then each `message` for it and the outcome of each message it sent. It writes `say`, `send`,
`result` or `error`. Other output is shown, and is the result if the program succeeds without one. No process outlives the call.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from swarm.core.errors import ToolError
from swarm.definitions.tools import PROGRAM, PROGRAM_AGAIN
from swarm.mailbox import Message
from swarm.tools import Hold, Tool, ToolContext, ToolResult
from swarm.tools.processes import CommandInput, run_command

_TAIL_CHARACTERS = 4_000
_ENTER = 'exec "$@" <&20 20<&-'


class Exchange(Protocol):
    """The messages to and from a running program."""

    limit_seconds: float
    """Time limit of one run."""

    def receive(self) -> Sequence[Message]:
        """Return new messages; each message is returned once."""
        ...

    def send(self, to: str, text: str) -> str:
        """Send a message; returns why it was not sent, or nothing."""
        ...


class _Over(Exception):
    """The program has given its result: its further actions have no effect."""


class _Dialogue:
    """The output of one run of a program, line by line."""

    def __init__(self, context: ToolContext, exchange: Exchange, told: CommandInput) -> None:
        self._context, self._exchange, self._told = context, exchange, told
        self._read = 0
        self.result: str | None = None
        self.error = ""
        self.output: list[str] = []

    def hear(self, written: bytes) -> None:
        """Process the output so far, and pass on new messages. Raises `_Over` once the program has given its result."""
        end = written.rfind(b"\n") + 1
        for line in written[self._read : end].splitlines():
            self._take(line.decode("utf-8", "replace"))
        self._read = max(self._read, end)
        if self.result is not None or self.error:
            raise _Over
        for message in self._exchange.receive():
            self._told.put_line(
                {"type": "message", "from": message.sender_name, "kind": message.kind, "text": message.body}
            )

    def finish(self, written: bytes) -> None:
        """Process the rest of the output after the program has ended."""
        with contextlib.suppress(_Over):
            self.hear(written if written.endswith(b"\n") or not written else written + b"\n")

    def _take(self, text: str) -> None:
        if self.result is not None or self.error:
            return
        line = _read_line(text)
        match line:
            case {"type": "result"}:
                data = line.get("data")
                words = str(line.get("text") or "")
                self.result = words if data is None else json.dumps(data, ensure_ascii=False)
            case {"type": "error"}:
                self.error = str(line.get("text") or line.get("message") or "it says no more")
            case {"type": "say"}:
                self._context.tell(str(line.get("text", "")))
            case {"type": "send"}:
                to = str(line.get("to") or "parent")
                why = self._exchange.send(to, str(line.get("text", "")))
                told = {"type": "refused", "to": to, "reason": why} if why else {"type": "sent", "to": to}
                self._told.put_line(told | ({"id": line["id"]} if "id" in line else {}))
            case _:
                self.output.append(text)
                self._context.tell(text)


def run_program(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Run the program of the agent's definition to its end."""
    definition, exchange = context.spec.definition, context.exchange
    if not definition.command or exchange is None or context.confine is None:
        raise ToolError("this agent is no program")
    # Only in a sandbox: the author of the definition writes a program for every host of the fleet.
    context.hold = Hold(network=context.spec.network)
    argv = context.confine(context, ["bash", "-c", _ENTER, "program", *definition.command])
    told = CommandInput()
    told.put_line(_start_line(context, given))
    hook_state = _Dialogue(context, exchange, told)
    try:
        outcome = run_command(
            context, "", context.confine, exchange.limit_seconds, argv=argv, given=told.end, hook_state=hook_state.hear
        )
    except _Over:
        return _conclude(hook_state)
    finally:
        told.close()
    hook_state.finish(outcome.output)
    output = "\n".join(hook_state.output).strip()
    if hook_state.result is None and not hook_state.error:
        if outcome.timed_out:
            hook_state.error = f"it was ended after {exchange.limit_seconds:g} s, its time limit"
        elif outcome.discarded_bytes:
            hook_state.error = "it wrote more than 10 MiB"
        elif outcome.exit_code:
            hook_state.error = f"it ended with the exit code {outcome.exit_code}"
        else:
            hook_state.result = output
        if hook_state.error and output:
            hook_state.error += f"; its last words:\n{output[-_TAIL_CHARACTERS:]}"
    return _conclude(hook_state).model_copy(update={"held": outcome.held})


def _conclude(hook_state: _Dialogue) -> ToolResult:
    if hook_state.error:
        return ToolResult(text=f"the program failed: {hook_state.error}", is_error=True)
    return ToolResult(text=hook_state.result or "")


def _start_line(context: ToolContext, given: dict[str, Any]) -> dict[str, Any]:
    spec = context.spec
    return {
        "type": "start",
        "v": 1,
        "prompt": given["prompt"],
        "earlier": given.get("earlier", []),
        "agent": {"id": spec.agent_id, "type": spec.definition.name, "name": spec.name or "", "depth": spec.depth},
        "job": spec.job_id,
        "key": context.idempotency_key,
    }


def _read_line(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        line = json.loads(text)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def _make(name: str) -> Tool:
    return Tool(
        name=name,
        description="Runs the program that this agent is.",
        parameters={
            "command": {"type": "string"},
            "prompt": {"type": "string"},
            "earlier": {"type": "array", "items": {"type": "string"}},
        },
        required=["command", "prompt"],
        run=run_program,
    )


ONCE, AGAIN = _make(PROGRAM), _make(PROGRAM_AGAIN)
