"""The panels of the page, and how a capability adds one.

A panel is one `Panel` in `PANELS` and one ES module of the same name in `static/panels/`. The module's default export is a Preact
component, which receives the result of `read`. The page loads it when it is first shown, and again after every event of a kind in
`stale_on`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from swarm.client.swarm import Swarm
from swarm.web.panels import capabilities, costs


@dataclass(frozen=True)
class PanelRequest:
    """A request to a panel."""

    swarm: Swarm
    job_id: str
    """Id of an existing job."""
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
    """One panel of a job, or of an agent."""

    name: str
    title: str
    read: Respond
    scope: Literal["job", "agent"] = "job"
    acts: Mapping[str, Respond] = field(default_factory=dict)
    """The panel's acts by name. They pass the page's guard like every other act."""
    stale_on: frozenset[str] = frozenset()
    """Kinds of events after which the panel's data is out of date."""


def describe_panel(panel: Panel) -> dict[str, Any]:
    """Return a panel's description for the browser."""
    return {
        "name": panel.name,
        "title": panel.title,
        "scope": panel.scope,
        "module": f"static/panels/{panel.name}.mjs",
        "stale_on": sorted(panel.stale_on),
        "acts": sorted(panel.acts),
    }


_TREE = frozenset({"spawned", "running", "parked", "woken", "handed_over", "rescued", "resumed", "ended", "job_ended"})
# fmt: off
_SHIPPED = (
    Panel("timeline", "Timeline", lambda asked: costs.read_timeline(asked.swarm, asked.job_id), stale_on=_TREE),
    Panel("board", "Board", lambda asked: capabilities.read_board(asked.swarm, asked.job_id), stale_on=frozenset({"board", "team"})),
    Panel("pad", "Scratchpad", lambda asked: capabilities.read_pad(asked.swarm, asked.job_id, asked.query.get("page")),
          stale_on=frozenset({"pad"})),
    Panel("memory", "Memory pages", lambda asked: capabilities.read_memory(asked.swarm, asked.job_id, asked.query),
          acts={"forget": lambda asked: capabilities.forget_job(asked.swarm, asked.job_id)}, stale_on=frozenset({"memory"})),
    Panel("servers", "MCP servers", lambda asked: capabilities.read_servers(asked.swarm, asked.job_id),
          stale_on=frozenset({"spawned", "server", "ended"})),
    Panel("cost", "Cost", lambda asked: costs.read_cost(asked.swarm, asked.job_id), stale_on=frozenset({"ended", "parked"})),
    Panel("limits", "Limits", lambda asked: capabilities.read_limits(asked.swarm, asked.job_id), stale_on=frozenset({"parked", "woken"})),
)
# fmt: on
PANELS: Mapping[str, Panel] = {panel.name: panel for panel in _SHIPPED}
