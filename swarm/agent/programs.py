"""A program in place of a model: run it with the agent's input and return its result. Pure.

Everything else works as for other agents: the journal, a kill in the middle of a call, schemas and checks of the answer, later messages,
limits, cancelling.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import PermanentModelError
from swarm.definitions.tools import PROGRAM, PROGRAM_AGAIN
from swarm.models import ApplyLimits, Begin, Hear, ModelRequest, Progress, Reply, Usage

_EMPTY = "(The program returned nothing.)"


class ProgramModel:
    """A model whose replies come from one agent's program."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Return the program's call or result. Raises `PermanentModelError` if the program failed."""
        told, result = _split(request.messages)
        ran = result is not None
        if request.tools_allowed and (told or not ran):
            return self._reply(
                [self._call(told if ran else self._first(request.messages), request.messages)], "tool_use"
            )
        if result is None:
            raise PermanentModelError("the program was not started", kind="program")
        text = _text_of(result)
        if result.get("is_error"):
            raise PermanentModelError(text, kind="program")
        return self._reply([{"type": "text", "text": text or _EMPTY}], "end_turn")

    def limit_class(self, model: str) -> str:
        """Return no class: a program calls no server."""
        return ""

    def summarizes(self, model: str) -> bool:
        """Return False: a program has no conversation to shorten."""
        return False

    def _first(self, messages: list[dict[str, Any]]) -> str:
        """Return the task without its surroundings, and all texts from before the start."""
        said = [block["text"] for message in messages for block in message["content"] if block.get("type") == "text"]
        return "\n\n".join([self._spec.prompt, *said[1:]])

    def _call(self, prompt: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        definition = self._spec.definition
        earlier = [_text_of(block) for message in messages for block in message["content"] if _is_result(block)]
        return {
            "type": "tool_use",
            "id": f"program_{len(messages)}",
            "name": PROGRAM_AGAIN if definition.restart else PROGRAM,
            "input": {"command": shlex.join(definition.command), "prompt": prompt, "earlier": earlier},
        }

    def _reply(self, content: list[dict[str, Any]], stop_reason: str) -> Reply:
        return Reply(content=content, stop_reason=stop_reason, usage=Usage(), model="program")


def _split(messages: list[dict[str, Any]]) -> tuple[str, dict[str, Any] | None]:
    """Return the texts since the program's last run, and its result; None before the first."""
    since: list[str] = []
    for message in reversed(messages):
        for block in reversed(message["content"]):
            if _is_result(block):
                return "\n\n".join(reversed(since)), block
            if block.get("type") == "text" and message["role"] == "user":
                since.append(block["text"])
    return "\n\n".join(reversed(since)), None


def _is_result(block: dict[str, Any]) -> bool:
    return bool(block.get("type") == "tool_result")


def _text_of(block: dict[str, Any]) -> str:
    content = block.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
