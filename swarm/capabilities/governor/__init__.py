"""The governor: a rate limiter in Redis for the whole fleet, which learns from the model server's responses."""

from __future__ import annotations

from swarm.core.capabilities import Capability

CAPABILITY = Capability()
