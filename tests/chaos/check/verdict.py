"""What the checker finds: faults, and the figures that say how much it has looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["lost", "doubled", "reordered", "unfinished", "wrong", "left"]
"""`unfinished`: an action that began has neither a result nor a word that it was interrupted; `wrong`: an answer, a sum or a state
that the journals do not bear out; `left`: something in Redis that should have gone with the job."""


@dataclass(frozen=True)
class Fault:
    """One broken promise."""

    kind: Kind
    about: str
    """`agent`, `child`, `entry`, `call`, `effect`, `message`, `mail`, `notice`, `answer`, `sum` or `key`."""
    where: str
    """The agent, the pair of agents, or the job."""
    what: str
    count: int = 1
    """How many things: messages of a pair, say."""

    @property
    def sort(self) -> str:
        """`KIND:ABOUT`, as it is waived by."""
        return f"{self.kind}:{self.about}"


@dataclass
class Verdict:
    """What was looked at, and what was wrong with it."""

    jobs: int = 0
    agents: int = 0
    entries: int = 0
    turns: int = 0
    calls: int = 0
    effects: int = 0
    """Lines that commands have written."""
    messages: int = 0
    """Those that entered a conversation."""
    pairs: int = 0
    """Of sender and receiver."""
    refused: int = 0
    """Messages that a full mailbox did not take."""
    interrupted: int = 0
    """Calls that the model was told were interrupted."""
    failed: list[str] = field(default_factory=list)
    """Agents that were expected to fail, and did."""
    faults: list[Fault] = field(default_factory=list)
    waived: list[Fault] = field(default_factory=list)
    """Faults of the sorts that were said to be possible here."""

    def count(self, kind: Kind) -> int:
        """How many things are lost, doubled, …"""
        return sum(fault.count for fault in self.faults if fault.kind == kind)

    def waive(self, sorts: Collection[str]) -> None:
        """Set aside the faults of these sorts."""
        self.waived += [fault for fault in self.faults if fault.sort in sorts]
        self.faults = [fault for fault in self.faults if fault.sort not in sorts]

    def add(self, other: Verdict) -> None:
        """Take in what was found elsewhere."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, Any]:
        """The whole verdict as plain data."""
        return {
            **asdict(self),
            "lost": self.count("lost"),
            "doubled": self.count("doubled"),
            "reordered": self.count("reordered"),
            "faults_by_sort": dict(Counter(fault.sort for fault in self.faults)),
        }
