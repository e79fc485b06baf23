"""Whether this machine has a key for the model, found out before anything is started for a job that could not run."""

from __future__ import annotations

from swarm.errors import ConfigurationError
from swarm.local.stack import has_worker
from swarm.models.credentials import explain_missing, find_credentials
from swarm.settings import Settings


def require_credentials(settings: Settings) -> None:
    """Raise `ConfigurationError` if workers of this machine would have no key; workers that run already have theirs."""
    missing = explain_missing(settings)
    if not missing or (find_credentials(settings) is None and has_worker(settings)):
        return
    without = ", or try `swarm demo`, which needs none" if settings.provider == "anthropic" else ""
    raise ConfigurationError(f"{missing}{without}")
