"""Agents whose requests begin alike let one of them begin first, so that the others read from the prompt cache what it writes.

It is a hint and no dependency: those who wait are parked, hold no process, and go on when the first reply begins, or after
`GATE_SECONDS`. If the first dies or gives its process back before, another one of them is the first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from swarm.agent.spec import AgentSpec
from swarm.log import EventLog
from swarm.runtime.segment import Segment
from swarm.runtime.share import name_prefix
from swarm.runtime.toolbox import Toolbox
from swarm.store.outage import REDIS_ERRORS

log = EventLog("swarm.sharing")
GATE_SECONDS = 30.0
"""Patience with a first reply that does not begin."""


def name_prefixes(segment: Segment, toolbox: Toolbox, children: Sequence[object]) -> dict[str, str]:
    """By id, the prefixes of new children; of those only that its parent's requests do not have in the cache already.

    They are made here as if the children ran on this worker. On another one they may differ, and the waiting is in vain.
    """
    prices, named = segment.settings.prices_file, {}
    own, _ = name_prefix(segment.spec, segment.life.system, segment.life.tools, prices)
    for child in children:
        # A fork begins with its parent's conversation, and one that goes on with its own.
        if isinstance(child, AgentSpec) and child.fork is None:
            name, _ = name_prefix(child, *toolbox.open_for(child), prices)
            if name and name != own:
                named[child.agent_id] = name
    return named


class Gate:
    """Of an agent that begins first: tells the others once its first reply has begun, or has not within `GATE_SECONDS`."""

    def __init__(self, segment: Segment, prefix: str) -> None:
        self._segment = segment
        self._prefix = prefix
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
