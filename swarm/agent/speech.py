"""What an agent has said in its run. A reply that was cut off and goes on in the next one is one text."""

from __future__ import annotations

from dataclasses import dataclass, field

from swarm.agent.blocks import text_of
from swarm.agent.entries import Assistant


@dataclass
class Speech:
    """The words of a run's replies. Only `swarm.agent.life` changes it."""

    said: str = ""
    """The latest text of this run that is not empty, however it goes on."""
    parts: list[str] = field(default_factory=list)
    """The last reply, in the parts that it came in."""
    goes_on: bool = False
    """Whether the next reply is the rest of the last one."""

    def take(self, reply: Assistant) -> None:
        """Take in the next reply."""
        self.parts = self._with(reply)
        self.goes_on = reply.stop_reason == "pause_turn"
        self.said = self.text() or self.said

    def break_off(self) -> None:
        """What comes next is not the rest of the last reply, which is none any more."""
        self.parts, self.goes_on = [], False

    def text(self) -> str:
        """The text of the last reply, of all its parts; empty when there is none."""
        return "".join(self.parts).strip()

    def text_at_hand(self) -> str:
        """The text of the last reply, or else what was said last before it in this run."""
        return self.text() or self.said

    def text_after(self, reply: Assistant) -> str:
        """What `text_at_hand` will be once this reply is taken in."""
        return "".join(self._with(reply)).strip() or self.said

    def _with(self, reply: Assistant) -> list[str]:
        return [*(self.parts if self.goes_on else ()), text_of(reply.content)]
