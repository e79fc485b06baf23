"""Hooks: people's own programs and addresses that are notified of agents' actions and may refuse or change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.runtime.segment import Segment


def _wanted(segment: Segment) -> bool:
    spec = segment.spec
    return bool("hooks" in segment.claim.documents or spec.definition.hooks or segment.settings.managed_hooks)


CAPABILITY = Capability(
    steps=(StepRow("hooks", "swarm.capabilities.hooks.step:hooks_of", _wanted),),
    order="swarm.capabilities.hooks.files:HooksOfOrder",
    brought="swarm.capabilities.hooks.files:list_brought",
    worker="swarm.capabilities.hooks.files:HooksOfWorker",
    commands={"Agents": {"hooks": "hooks:show_hooks"}},
)
