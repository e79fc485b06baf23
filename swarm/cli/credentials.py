"""Whether this machine has a key for the model, found out before anything is started for a job that could not run."""

from __future__ import annotations

import os
from pathlib import Path

from swarm.errors import ConfigurationError
from swarm.local.stack import has_worker
from swarm.models.anthropic import check_packages
from swarm.settings import Settings

_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_BASE_URL",
)
"""Any of these may let the SDK in; whether they do, the first request tells."""


def find_credentials(settings: Settings) -> str | None:
    """Where the model's credentials come from, in a few words; None if there are none."""
    if settings.provider != "anthropic":
        return f"provider {settings.provider}"
    if settings.base_url:
        return "SWARM_BASE_URL"
    for name in _VARIABLES:
        if os.environ.get(name):
            return name
    folder = Path(os.environ.get("ANTHROPIC_CONFIG_DIR") or Path.home() / ".config" / "anthropic")
    return str(folder) if folder.is_dir() else None


def require_credentials(settings: Settings) -> None:
    """Raise `ConfigurationError` if workers of this machine would have no key; workers that run already have theirs."""
    check_packages(settings.provider)
    if find_credentials(settings) is None and not has_worker(settings):
        raise ConfigurationError(
            "there is no key for the model: set ANTHROPIC_API_KEY, or try `swarm demo`, which needs none"
        )
