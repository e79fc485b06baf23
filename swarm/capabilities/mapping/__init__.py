"""A capability: submit one order for each line of a list, durably and once each."""

from __future__ import annotations

from swarm.core.capabilities import Capability

CAPABILITY = Capability()
