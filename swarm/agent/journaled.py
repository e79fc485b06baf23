"""The common base of all entries, and the condition that a parked agent waits for."""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.formats import Formatted


class Condition(BaseModel):
    """A parked agent's wake condition. It holds as soon as any of its parts holds."""

    model_config = ConfigDict(frozen=True)

    children: list[str] = []
    """Agents whose end is awaited."""
    mode: Literal["all", "any"] = "all"
    """Wait for all of the children or tasks, or for any."""
    tasks: list[str] = []
    """Tasks of the board whose completion is awaited."""
    mail: Literal["", "any", "talk"] = ""
    """A message has arrived beyond the journal's cursor; `talk`: one that the runtime did not write."""
    question: str = ""
    """The id of an open question."""
    further: list[str] = []
    """The ids of further open questions; one answer is enough."""
    event: str = ""
    """The key of an external event that answers the question, if any."""
    rest: bool = False
    """Rest until mail comes, or no agent works for this one any more."""
    budget: tuple[int, int] | None = None
    """Wake when the reservations of others' calls fall to so many tokens and nano-dollars."""
    slot: bool = False
    """A requested slot: the agent's turn to use the model."""
    model: bool = Field(default=False, exclude_if=not_)
    """The wait is for the model, so another one ends it."""
    batch: str = ""
    """The name of a batched request whose reply is awaited."""
    until: float | None = None
    """A deadline (Unix seconds); the whole condition when nothing else is set."""

    def describe(self) -> str:
        """Describe the condition's parts: `2 agents or a message`."""
        reasons = []
        for ids, what in ((self.children, "agent"), (self.tasks, "task")):
            if ids:
                reasons.append(f"{len(ids)} {what}{'' if len(ids) == 1 else 's'}")
        if self.event:
            reasons.append(f"the event {self.event}")
        elif self.question:
            reasons.append("an answer")
        if self.further:
            reasons.append(f"{len(self.further)} further answer{'' if len(self.further) == 1 else 's'}")
        if self.rest:
            reasons.append("agents that work for it")
        elif self.mail:
            reasons.append("a message")
        if self.budget:
            reasons.append("a part of the budget")
        if self.slot:
            reasons.append("its share of the model")
        if self.batch:
            reasons.append("its batch")
        if self.until is not None:
            reasons.append("a moment")
        return " or ".join(reasons) or "nothing"


class Journaled(Formatted):
    """Fields of every entry."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: float = 0.0
    """Unix seconds by the writing worker's clock: for people, never for decisions."""
    generation: int = 0
    """The writer's claim; filled in by the journal."""
