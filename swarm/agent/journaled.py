"""What the kinds of entries have in common, and the condition that a parked agent waits for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Condition(BaseModel):
    """What a parked agent waits for. It holds as soon as any of its parts holds."""

    model_config = ConfigDict(frozen=True)

    children: list[str] = []
    """Agents whose end is awaited …"""
    mode: Literal["all", "any"] = "all"
    """… all of them, or any of them; the same for tasks."""
    tasks: list[str] = []
    """Tasks of the board whose completion is awaited."""
    mail: Literal["", "any", "talk"] = ""
    """A message has arrived beyond the journal's cursor; `talk`: one that the runtime did not write."""
    question: str = ""
    """The id of a question that was asked."""
    event: str = ""
    """The key of an event from outside, if that is what answers it."""
    rest: bool = False
    """Nothing is left to do but to wait for those who still work for the agent: mail comes, or nobody is at work any more."""
    budget: tuple[int, int] | None = None
    """That others' calls are settled, of whose tokens and nano-dollars so much may be left then."""
    slot: bool = False
    """The slot that it has asked for: its turn to use the model."""
    batch: str = ""
    """The name of a request that was left to a batch, whose reply is awaited."""
    until: float | None = None
    """A time (Unix seconds) has come: a deadline, or the whole condition when nothing else is set."""

    def describe(self) -> str:
        """The parts of the condition: `2 agents or a message`."""
        reasons = []
        for ids, what in ((self.children, "agent"), (self.tasks, "task")):
            if ids:
                reasons.append(f"{len(ids)} {what}{'' if len(ids) == 1 else 's'}")
        if self.event:
            reasons.append(f"the event {self.event}")
        elif self.question:
            reasons.append("an answer")
        if self.rest:
            reasons.append("those who work for it")
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


class Journaled(BaseModel):
    """What every entry has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    at: float = 0.0
    """Unix seconds, by the clock of the worker that wrote it: for people, never for decisions."""
    generation: int = 0
    """The claim under which it was written; filled in by the journal."""
