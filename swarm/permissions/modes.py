"""Permission modes in their order."""

from __future__ import annotations

from typing import get_args

from swarm.definitions.model import AgentDefinition, PermissionMode

MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)
"""From the strictest to the most permissive."""
AFTER_PLAN: PermissionMode = "acceptEdits"
"""The mode that an approved plan is carried out in, unless the answer names another."""


def at_most(child: PermissionMode, parent: PermissionMode) -> PermissionMode:
    """The mode of a child that wants `child` below a parent in `parent`: the stricter of the two.

    So plan mode is inherited, and nothing below an agent in plan mode can leave it.
    """
    return min(child, parent, key=MODES.index)


def first_mode(definition: AgentDefinition, above: PermissionMode) -> PermissionMode:
    """The mode an agent begins in: what its definition asks for, and at most what is above it (its parent, or the job)."""
    wanted = definition.permission_mode
    return above if wanted == "default" else at_most(wanted, above)
