"""Agents whose requests begin alike let one of them begin first, so that the others read from the prompt cache what it writes.

It is a hint and no dependency: those who wait are parked, hold no process, and go on when the first reply begins or after
`GATE_SECONDS`, whatever has become of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from swarm.agent.spec import AgentSpec
from swarm.log import EventLog
from swarm.models.catalogue import least_cached
from swarm.models.encoding import describe_prefix
from swarm.runtime.segment import Segment
from swarm.runtime.toolbox import Toolbox
from swarm.store.outage import REDIS_ERRORS

log = EventLog("swarm.sharing")
GATE_SECONDS = 2.0
_BYTES_PER_TOKEN = 4.5
"""On the high side: a prefix that is too short for the cache is not worth waiting for."""


def name_prefix(spec: AgentSpec, system: str, tools: list[dict[str, object]], prices_file: Path | None) -> str:
    """What tells requests that begin alike for the prompt cache; empty if it would not hold so little."""
    digest, size = describe_prefix(spec.model, system, tools, f"{spec.definition.effort} {spec.base_url}")
    return digest if size / _BYTES_PER_TOKEN >= least_cached(spec.model, prices_file=prices_file) else ""


def name_prefixes(segment: Segment, toolbox: Toolbox, children: Sequence[object]) -> dict[str, str]:
    """By id, the prefixes of new children; of those only that its parent's requests do not have in the cache already.

    They are made here as if the children ran on this worker. On another one they may differ, and the waiting is in vain.
    """
    prices, named = segment.settings.prices_file, {}
    own = name_prefix(segment.spec, segment.life.system, segment.life.tools, prices)
    for child in children:
        # A fork begins with its parent's conversation, and one that goes on with its own.
        if isinstance(child, AgentSpec) and child.fork is None:
            name = name_prefix(child, *toolbox.open_for(child), prices)
            if name and name != own:
                named[child.agent_id] = name
    return named


class Gate:
    """Of an agent that begins first: tells the others once its first reply has begun, or has not within `GATE_SECONDS`."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._prefix = segment.claim.opens if segment.life.turns == 0 else ""
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """The first request is about to be made."""
        if self._prefix and self._timer is None:
            self._timer = threading.Timer(GATE_SECONDS, self._open, [self._prefix, False])
            self._timer.daemon = True
            self._timer.start()

    def open(self) -> None:
        """A reply has begun."""
        prefix, self._prefix = self._prefix, ""
        if prefix:
            self.close()
            self._open(prefix, True)

    def close(self) -> None:
        """Nobody is told any more; timers wake those who wait."""
        if self._timer is not None:
            self._timer.cancel()

    def _open(self, prefix: str, begun: bool) -> None:
        left = True
        try:
            while left:
                left, effect = self._segment.store.let_others_begin(prefix, begun=begun)
                self._segment.publish(effect)
        except REDIS_ERRORS as error:
            log.debug("gate.stuck", error=error)
