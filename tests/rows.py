"""Rows of agents, as those see them who watch, out of records."""

from __future__ import annotations

from collections import defaultdict

from swarm.streaming.live.rows import Row, agent_row


def make_row(agent_id: str, **record: object) -> Row:
    """The row of an agent of whose record this is known."""
    known = {name: str(value) for name, value in record.items() if value is not None}
    return agent_row(agent_id, defaultdict(lambda: None, known))
