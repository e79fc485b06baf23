"""The panels of the page: what each shows, and how a capability adds one.

A panel is one `Panel` in `PANELS` and one ES module of the same name in `static/panels/`. The module's default export is a Preact
component, which is given what `read` returns; the page loads it when it is shown first, and again whenever an event of a kind in
`stale_on` has come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from swarm.client.swarm import Swarm
from swarm.web.panels import capabilities, costs


@dataclass(frozen=True)
class PanelRequest:
    """What somebody asks a panel for."""

    swarm: Swarm
    job_id: str
    """A job that exists."""
    agent_id: str | None
    """The agent that is open in the page."""
    query: Mapping[str, str]
    body: Mapping[str, Any]
    """Of an act."""
    user: str
    """Who asks, as the login has it."""


Respond = Callable[[PanelRequest], Any]
"""Returns JSON. Raises `BadRequest`, `NotThere`, or an error of the swarm's."""


@dataclass(frozen=True)
class Panel:
    """One panel of a job, or of an agent."""

    name: str
    title: str
    read: Respond
    scope: Literal["job", "agent"] = "job"
    acts: Mapping[str, Respond] = field(default_factory=dict)
    """What can be done in it, by name. They pass the page's guard like every other act."""
    stale_on: frozenset[str] = frozenset()
    """The kinds of events after which what it shows is out of date."""


def describe_panel(panel: Panel) -> dict[str, Any]:
    """A panel as the browser needs to know it."""
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
