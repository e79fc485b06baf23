"""A panel of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from swarm.client.swarm import Swarm


@dataclass(frozen=True)
class PanelRequest:
    """A request to a panel."""

    swarm: Swarm
    job_id: str
    """Id of an existing job; empty for a panel of the fleet."""
    agent_id: str | None
    """Id of the agent open in the page."""
    query: Mapping[str, str]
    body: Mapping[str, Any]
    """The body of an act."""
    user: str
    """The visitor's name from the login."""


Respond = Callable[[PanelRequest], Any]
"""Returns JSON. Raises `BadRequest`, `NotThere`, or another error of the swarm."""


@dataclass(frozen=True)
class Panel:
    """One panel of a job, of an agent, or of the fleet."""

    name: str
    title: str
    read: Respond
    scope: Literal["job", "agent", "fleet"] = "job"
    acts: Mapping[str, Respond] = field(default_factory=dict)
    """The panel's acts by name. They pass the page's guard like every other act."""
    stale_on: frozenset[str] = frozenset()
    """Kinds of events after which the panel's data is out of date."""
