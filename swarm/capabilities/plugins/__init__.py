"""Folders of plugins: read at submission, they travel with the job, for the hooks, servers, skills and commands that need them."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(StepRow("plugins", "swarm.capabilities.plugins.step:PluginsStep", document="plugins"),),
    order="swarm.capabilities.plugins.carrying:PluginsOfOrder",
    commands={"Agents": {"plugins": "plugins:plugins"}},
)
