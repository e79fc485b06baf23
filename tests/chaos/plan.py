"""What a campaign plays, on what, and how it is hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.rehearsal.tree import tree_size
from tests.chaos.crashing_worker import Order
from tests.chaos.ledger import Charges
from tests.chaos.storming import Storm

EVERYWHERE = ("child", "worker", "drain", "stop", "redis", "pause", "cut")
"""Blows that any fleet can take: see `tests.chaos.blows`."""


@dataclass(frozen=True)
class Tree:
    """A tree of agents whose leaves run commands; the root's answer counts them all."""

    depth: int
    fanout: int
    steps: int = 2
    think_ms: int = 200

    scenario = "tree"

    @property
    def agents(self) -> int:
        """How many agents it has."""
        return tree_size(self.depth, self.fanout)

    @property
    def prompt(self) -> str:
        """The order to the root."""
        return f"TREE depth={self.depth} fanout={self.fanout} steps={self.steps} write=1 think={self.think_ms}"


@dataclass(frozen=True)
class Talk:
    """Agents that write numbered messages to each other, all to all."""

    fanout: int = 8
    """How many agents talk."""
    messages: int = 1_600
    """How many they send together: a multiple of the agents."""
    batch: int = 20
    """How many of them in one reply."""
    think_ms: int = 200

    scenario = "chatter"

    @property
    def agents(self) -> int:
        """How many agents there are: those that talk, and who started them."""
        return self.fanout + 1

    @property
    def prompt(self) -> str:
        """The order to the root."""
        return f"CHATTER agents={self.fanout} messages={self.messages} batch={self.batch} think={self.think_ms}"


@dataclass(frozen=True)
class Plan:
    """One section of the report. The same seed plans the same blows, at times of their own."""

    name: str
    what: str
    """In one line, for who reads the report."""
    works: Sequence[Tree | Talk | Charges | Storm]
    """The jobs, one after the other; again from the first until `seconds` are over."""
    seconds: float = 0.0
    first: Sequence[str] = ()
    """The kinds of blows to begin with, in a random order …"""
    kinds: Sequence[str] = EVERYWHERE
    """… those that come after them by chance, until `seconds` are over …"""
    rest_seconds: tuple[float, float] = (0.3, 1.5)
    """… and how long to rest before each."""
    workers: int = 3
    processes: int = 3
    pool: str = "prefork"
    spare_one: bool = False
    """No worker-wide blow falls on the first worker, so that its memory is that of one long life."""
    poison: Order | None = None
    """Where one agent of each job dies, again and again."""
    waive: Sequence[str] = ()
    """Faults that are said to be possible here, as `KIND:ABOUT`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the fleet, other than its defaults."""
    environment: dict[str, str] = field(default_factory=dict)
    """Of its workers, beside that."""
    releases: Sequence[Path | None] = (None,)
    """The trees that its workers run, in turn; None: today's code."""
    seed: int = 1
    job_seconds: float = 600.0
    """How long one job may take."""
