"""The permission modes and their order."""

from __future__ import annotations

from typing import get_args

from swarm.definitions.model import AgentDefinition, PermissionMode

MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)
"""The modes, from the strictest to the most permissive."""
AFTER_PLAN: PermissionMode = "acceptEdits"
"""The mode after an approved plan, unless the answer names another."""


def at_most(child: PermissionMode, parent: PermissionMode) -> PermissionMode:
    """Return the stricter of two modes: the child's wish and the parent's mode.

    So children inherit plan mode and cannot leave it.
    """
    return min(child, parent, key=MODES.index)


def first_mode(definition: AgentDefinition, above: PermissionMode) -> PermissionMode:
    """Return an agent's first mode: its definition's, limited by the mode of its parent or job."""
    wanted = definition.permission_mode
    return above if wanted == "default" else at_most(wanted, above)
