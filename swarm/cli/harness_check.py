"""The check of harnesses for `swarm doctor`."""

from __future__ import annotations

from swarm.capabilities.harnesses.programs import KNOWN, find_programs
from swarm.cli.doctor import Check
from swarm.core.settings import Settings
from swarm.permissions.sandbox import choose_backend


def check_harnesses(settings: Settings) -> Check:
    """Check which other coding agents a worker of this machine could run."""
    found = find_programs(settings.harnesses)
    here = ", ".join(f"{name} {program.version}".strip() for name, program in found.items()) or "none"
    missing = [f"{name}: {known.install}" for name, known in KNOWN.items() if name not in found]
    if not found or getattr(choose_backend(settings.sandbox), "name", "") == "bubblewrap":
        return Check("harnesses", not missing, here, "; ".join(missing), needed=False)
    return Check("harnesses", False, f"{here}, but without bubblewrap none can run", "install bubblewrap", needed=False)
