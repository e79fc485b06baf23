"""Whether this machine has a key for the model, found out before anything is started for a job that could not run."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from swarm.errors import ConfigurationError
from swarm.local.stack import has_worker
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


_PACKAGES = {"bedrock": "boto3", "vertex": "google"}
"""What the SDK needs for a provider besides itself."""


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
    needed = _PACKAGES.get(settings.provider)
    if needed is not None and find_spec(needed) is None:
        raise ConfigurationError(
            f"the provider {settings.provider} needs more packages: pip install 'celery-swarm[{settings.provider}]'"
        )
    if find_credentials(settings) is None and not has_worker(settings):
        raise ConfigurationError(
            "there is no key for the model: set ANTHROPIC_API_KEY, or try `swarm demo`, which needs none"
        )
