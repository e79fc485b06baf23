"""Hooks: people's own programs and addresses that are notified of agents' actions and may refuse or change them."""

from __future__ import annotations

from swarm.core.capabilities import Capability, StepRow

CAPABILITY = Capability(
    steps=(
        StepRow(
            "hooks",
            "swarm.capabilities.hooks.step:hooks_of",
            ("spec.definition.hooks", "settings.managed_hooks"),
            "hooks",
        ),
    ),
    order="swarm.capabilities.hooks.files:HooksOfOrder",
    brought="swarm.capabilities.hooks.files:list_brought",
    worker="swarm.capabilities.hooks.files:HooksOfWorker",
    commands={"Agents": {"hooks": "hooks:show_hooks"}},
)
