"""What an agent does next whose definition is a program: run it with what it was told, and return what that said. Pure.

It stands where a model stands for others. So all around it is theirs: the journal, what a kill in the middle of a call leaves, schemas and
checks of the answer, messages that come after it, limits, cancelling.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import PermanentModelError
from swarm.definitions.tools import PROGRAM, PROGRAM_AGAIN
from swarm.models import ApplyLimits, Hear, ModelRequest, Progress, Reply, Usage

_EMPTY = "(The program returned nothing.)"


class ProgramModel:
    """Answers for one agent."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
    ) -> Reply:
        """A call of the program, or its result as the answer. Raises `PermanentModelError` where the program failed."""
        told, result = _split(request.messages)
        ran = result is not None
        if request.tools_allowed and (told or not ran):
            return self._reply(
                [self._call(told if ran else self._first(request.messages), request.messages)], "tool_use"
            )
        if result is None:
            raise PermanentModelError("the program was not begun", kind="program")
        text = _text_of(result)
        if result.get("is_error"):
            raise PermanentModelError(text, kind="program")
        return self._reply([{"type": "text", "text": text or _EMPTY}], "end_turn")

    def limit_class(self, model: str) -> str:
        """Nobody's: it asks no server."""
        return ""

    def summarizes(self, model: str) -> bool:
        """There is nothing that could be made shorter."""
        return False

    def _first(self, messages: list[dict[str, Any]]) -> str:
        """Its task without what a model is told of its surroundings, and whatever was said before it began."""
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
    """What was said since the program ran last, and that run's result; None if it did not run yet."""
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
