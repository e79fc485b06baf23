"""Ceilings: the most that a worker allows any record, and that an API key allows any order. Pure.

A worker lowers values above its ceiling (`bound_*`), because every client with write access to Redis can write records. An order above
its caller's ceiling is refused (`hold`) instead of being lowered silently.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.errors import BeyondCeiling
from swarm.core.settings import Settings
from swarm.definitions.model import PermissionMode
from swarm.permissions.modes import at_most

_KEY_COMMAND = "`swarm keys add NAME"


@dataclass(frozen=True)
class Privileges:
    """The requested values of an order or a job that ceilings limit."""

    workspace: str | Path = ""
    mode: PermissionMode | None = None
    network: bool = False
    allow: bool = False
    """The order contains `allow` rules."""
    check: bool = False
    """The order contains a command that checks the work."""
    budget_usd: float | None = None
    """None: not given, so the ceiling's budget applies; infinite: no limit."""


class Ceiling(BaseModel):
    """Upper limits; without values nothing is limited."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workspaces: tuple[Path, ...] = ()
    """Resolved folders; a workspace must be one of them or lie below one."""
    mode: PermissionMode | None = None
    network: bool = True
    allow: bool = True
    """Orders may contain `allow` rules."""
    check: bool = True
    """Orders may contain a command that checks the work."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Maximum budget of a job, and of a whole map."""

    def bound_mode(self, mode: PermissionMode) -> PermissionMode:
        """Return the mode, lowered to this ceiling."""
        return mode if self.mode is None else at_most(mode, self.mode)

    def bound_cost(self, budget_usd: float | None) -> float | None:
        """Return the budget, lowered to this ceiling; None: no limit."""
        known = [one for one in (budget_usd, self.max_cost_usd) if one is not None]
        return min(known, default=None)

    def bound_folders(self, folders: list[str]) -> list[str]:
        """Return the folders besides the workspace that this ceiling allows."""
        return [folder for folder in folders if not self.refuse_workspace(folder, "")]

    def describe(self) -> str:
        """Describe the ceiling in one line, for its operator."""
        said = {"network": self.network, "allow rules": self.allow, "check": self.check}
        cost = "any cost" if self.max_cost_usd is None else f"${self.max_cost_usd:g} at most"
        told = [f"mode {self.mode or 'any'}", *(what if may else f"no {what}" for what, may in said.items()), cost]
        return ", ".join(told) + (f", in {', '.join(map(str, self.workspaces))}" if self.workspaces else "")

    def explain_bounds(self, mode: PermissionMode, *, network: bool) -> str:
        """Explain what an agent with this mode and network loses on this worker; empty if nothing."""
        told = []
        if self.bound_mode(mode) != mode:
            told.append(f"works in mode {self.bound_mode(mode)} at most, not in {mode} (SWARM_MODE_CEILING)")
        if network and not self.network:
            told.append("gets no network for its processes (SWARM_NETWORK)")
        return " and ".join(told)

    def refuse_workspace(self, workspace: str, host: str) -> str:
        """Return the reason why this folder cannot be a workspace here; empty if it can. Links are resolved first."""
        if self._has_folder(real := Path(os.path.realpath(workspace))):
            return ""
        shown = workspace if str(real) == workspace else f"{workspace} (which is {real})"
        return (
            f"the workspace {shown} is outside the folders that the worker on {host} allows: "
            f"{', '.join(map(str, self.workspaces))}. Work below one of them, or add the folder to SWARM_WORKSPACES "
            "where the worker runs"
        )

    def hold(self, wanted: Privileges) -> None:
        """Raise `BeyondCeiling` for the first value above this ceiling."""
        mode, budget = wanted.mode, wanted.budget_usd
        if wanted.workspace and not self._has_folder(Path(os.path.realpath(wanted.workspace))):
            below = f"only folders below {', '.join(map(str, self.workspaces))}"
            remedy = f"{_KEY_COMMAND} --workspace {wanted.workspace}`, over stdio `swarm mcp serve --only {wanted.workspace}`"
            raise BeyondCeiling("workspace", str(wanted.workspace), below, remedy)
        if mode is not None and self.bound_mode(mode) != mode:
            raise BeyondCeiling("mode", mode, f"{self.mode} at most", f"{_KEY_COMMAND} --mode {mode}`")
        if wanted.network and not self.network:
            raise BeyondCeiling("network", "true", "no network", f"{_KEY_COMMAND} --network`")
        if wanted.allow and not self.allow:
            raise BeyondCeiling("allow", "a rule that allows", "no such rules", f"{_KEY_COMMAND} --allow-rules`")
        if wanted.check and not self.check:
            raise BeyondCeiling("check", "a command", "no command that checks the work", f"{_KEY_COMMAND} --check`")
        if budget is not None and self.bound_cost(budget) != budget:
            asked, option = (f"${budget:g}", f" --max-cost {budget:g}") if budget < math.inf else ("no limit", "")
            raise BeyondCeiling("budget_usd", asked, f"${self.max_cost_usd:g} at most", f"{_KEY_COMMAND}{option}`")

    def _has_folder(self, real: Path) -> bool:
        return not self.workspaces or any(real.is_relative_to(root) for root in self.workspaces)


UNLIMITED = Ceiling()
KEY_CEILING = Ceiling(mode="acceptEdits", network=False, allow=False, check=False)
"""The ceiling of an API key without limits of its own."""


def read_ceiling(settings: Settings) -> Ceiling:
    """Read the ceiling from a worker's settings; `UNLIMITED` itself if they limit nothing."""
    if not settings.workspaces and settings.mode_ceiling is None and settings.network != "off":
        return UNLIMITED
    folders = (
        tuple(Path(os.path.realpath(folder)) for folder in settings.workspace_folders()) if settings.workspaces else ()
    )
    return Ceiling(workspaces=folders, mode=settings.mode_ceiling, network=settings.network != "off")
