"""Give an agent its instruction files: with its first message, and with the first matching read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.agent.entries import Redefined, Started, ToolFinished
from swarm.capabilities.context.instructions import Instructions
from swarm.capabilities.context.nested import find_reached, render_reached
from swarm.definitions.tools import READ
from swarm.models import Block
from swarm.runtime.steps import Step

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts


def guidance_of(parts: Parts) -> Guidance | None:
    """The instruction files as a step of the loop, for an agent whose type reads them."""
    return Guidance(parts) if parts.segment.spec.definition.instruction_files else None


class Guidance(Step):
    """The instruction files of one segment's agent."""

    @cached_property
    def _instructions(self) -> Instructions | None:
        """The files that travelled with the job. Raises `UnreadableRecord`."""
        return self.segment.carried("instructions", Instructions, "the instruction files")

    def opened(self, entry: Started) -> Started:
        """Add the beginning of the first message to the agent's first entry."""
        found = self._instructions
        if found is None or not found.text or isinstance(entry, Redefined):
            return entry
        digest = self.segment.claim.documents["instructions"]
        return entry.model_copy(update={"instructions": digest, "guidance": found.text})

    def after_calls(self, calls: Sequence[Block], results: Sequence[ToolFinished]) -> list[ToolFinished]:
        """Add to each result of a read the matching instruction files that the agent has not been given yet."""
        given = set(self.segment.history.guided)
        followed = []
        for call, result in zip(calls, results, strict=True):
            if call["name"] == READ and result.files and not result.is_error:
                result = self._follow(result, given)
                given.update(result.instructions)
            followed.append(result)
        return followed

    def _follow(self, result: ToolFinished, given: set[str]) -> ToolFinished:
        found, workspace = self._instructions, self.segment.workspace
        if found is None:
            return result
        allowed = [path for path in map(Path, result.files) if path.is_relative_to(workspace)]
        before = given | {source.name for source in found.sources}
        parts = [
            part
            for path in allowed
            for part in find_reached(workspace, path, found, before, may_read=self.segment.may_read)
        ]
        if not parts:
            return result
        text = render_reached(parts)
        update: dict[str, Any] = {"text": result.text + text, "instructions": [part.source for part in parts]}
        if result.blocks is not None:
            update["blocks"] = [*result.blocks, {"type": "text", "text": text.lstrip()}]
        return result.model_copy(update=update)
