"""What an agent's journal tells of hooks: which events they have been run for, and what they decided that is not in the conversation."""

from __future__ import annotations

from dataclasses import dataclass, field

from swarm.agent.entries import Hooked, HooksBegun
from swarm.models import Block


@dataclass
class Hooking:
    """A part of `Life`; only that changes it."""

    begun: set[str] = field(default_factory=set)
    """Events whose hooks have begun, and of which nothing more is known yet."""
    done: set[str] = field(default_factory=set)
    """Events since the last reply whose hooks have run."""
    leave: dict[str, Hooked] = field(default_factory=dict)
    """What was decided about calls of the last reply that a hook wants asked about, or allowed."""
    ended: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that were carried out, as they were."""
    blocks: int = 0
    """How often in a row an end was refused."""
    focus: str = ""
    """What the next summary must hold above all."""
    stopped: str = ""
    """Why this run is to end."""

    def begin(self, entry: HooksBegun) -> None:
        """Hooks are about to run."""
        self.begun.add(entry.event)

    def end(self, entry: Hooked) -> None:
        """They have run, or nobody will ever know."""
        self.begun.discard(entry.event)
        self.done.add(entry.event)
        if entry.decision in ("ask", "allow"):
            self.leave[entry.tool_use_id] = entry
        if entry.name in ("Stop", "SubagentStop", "TeammateIdle"):
            self.blocks = self.blocks + 1 if entry.decision == "block" else 0
        if entry.name == "PreCompact":
            self.focus = entry.text
        self.stopped = self.stopped or entry.stop

    def forget_turn(self) -> None:
        """A reply has come: what was about the last one's calls is over."""
        if self.done or self.ended:
            self.done, self.leave, self.ended = set(), {}, {}
