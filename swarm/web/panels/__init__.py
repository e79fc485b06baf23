"""The panels of the page, and how a capability adds one.

A panel is one `Panel` in `PANELS` of the module that its capability names, and one ES module of the same name in `static/panels/`. The
module's default export is a Preact component, which receives the result of `read`. The page loads it when it is first shown, and again
after every event of a kind in `stale_on`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from swarm.capabilities.governor.view import read_classes
from swarm.client.swarm import Swarm
from swarm.core.capabilities import capabilities, load
from swarm.web.panels import costs
from swarm.web.panels.panel import Panel, PanelRequest

__all__ = ["PANELS", "Panel", "PanelRequest", "describe_panel", "read_limits"]


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


def read_limits(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read each class's buckets and counts, and how many waiting agents belong to the job."""
    classes = []
    for one in read_classes(swarm.store):
        shown = asdict(one)
        waiting = shown.pop("waiting")
        classes.append({**shown, "waiting": sum(waiting.values()), "waiting_here": waiting.get(job_id, 0)})
    return {"classes": classes}


_TREE = frozenset({"spawned", "running", "parked", "woken", "handed_over", "rescued", "resumed", "ended", "job_ended"})
# fmt: off
_SHIPPED = (
    Panel("timeline", "Timeline", lambda asked: costs.read_timeline(asked.swarm, asked.job_id), stale_on=_TREE),
    *(panel for one in capabilities().values() if one.panels for panel in load(one.panels)),
    Panel("cost", "Cost", lambda asked: costs.read_cost(asked.swarm, asked.job_id), stale_on=frozenset({"ended", "parked"})),
    Panel("limits", "Limits", lambda asked: read_limits(asked.swarm, asked.job_id), stale_on=frozenset({"parked", "woken"})),
)
# fmt: on
PANELS: Mapping[str, Panel] = {panel.name: panel for panel in _SHIPPED}
