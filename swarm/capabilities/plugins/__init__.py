"""Folders of plugins: read at submission, they travel with the job, for the hooks, servers, skills and commands that need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.runtime.segment import Segment


def _wanted(segment: Segment) -> bool:
    return "plugins" in segment.claim.documents


CAPABILITY = Capability(
    steps=(StepRow("plugins", "swarm.capabilities.plugins.step:PluginsStep", _wanted),),
    order="swarm.capabilities.plugins.carrying:PluginsOfOrder",
    commands={"Agents": {"plugins": "plugins:plugins"}},
)
