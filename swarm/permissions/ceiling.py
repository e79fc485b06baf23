"""The most that a worker lets any agent do, whatever its record says: pure, from the worker's own settings.

A record is written by whoever may write to Redis. What it asks for is bounded here, by what no client can change.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swarm.definitions.model import PermissionMode
from swarm.permissions.modes import at_most
from swarm.settings import Settings


@dataclass(frozen=True)
class Ceiling:
    """What a worker allows at most; without values nothing is limited."""

    workspaces: tuple[Path, ...] = ()
    """Folders, resolved: a workspace is one of them or lies below one."""
    mode: PermissionMode | None = None
    network: bool = True

    def bound_mode(self, mode: PermissionMode) -> PermissionMode:
        """The mode that holds here for an agent that has this one."""
        return mode if self.mode is None else at_most(mode, self.mode)

    def bound_folders(self, folders: list[str]) -> list[str]:
        """Those of the folders beside the workspace that agents may work in here."""
        return [folder for folder in folders if not self.refuse_workspace(folder, "")]

    def explain_bounds(self, mode: PermissionMode, *, network: bool) -> str:
        """In words what an agent loses here that may come to this mode and has this network; empty if nothing."""
        told = []
        if self.bound_mode(mode) != mode:
            told.append(f"works in mode {self.bound_mode(mode)} at most, not in {mode} (SWARM_MODE_CEILING)")
        if network and not self.network:
            told.append("gets no network for its processes (SWARM_NETWORK)")
        return " and ".join(told)

    def refuse_workspace(self, workspace: str, host: str) -> str:
        """Why this folder is no workspace here; empty if it may be one. Links are followed first."""
        real = Path(os.path.realpath(workspace))
        if not self.workspaces or any(real.is_relative_to(root) for root in self.workspaces):
            return ""
        shown = workspace if str(real) == workspace else f"{workspace} (which is {real})"
        return (
            f"the workspace {shown} is in none of the folders that the worker on {host} allows: "
            f"{', '.join(map(str, self.workspaces))}. Work below one of them, or add the folder to SWARM_WORKSPACES "
            "where the worker runs"
        )


def read_ceiling(settings: Settings) -> Ceiling:
    """The ceiling that a worker's settings draw."""
    folders = tuple(Path(os.path.realpath(folder)) for folder in settings.workspace_folders())
    return Ceiling(workspaces=folders, mode=settings.mode_ceiling, network=settings.network != "off")
