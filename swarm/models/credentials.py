"""Whether this machine could sign in to the model: what can be seen without asking the server."""

from __future__ import annotations

import os
from pathlib import Path

from swarm.errors import ConfigurationError
from swarm.models.connecting import check_packages
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


def explain_missing(settings: Settings) -> str:
    """Why no request can be signed here, and what to do; empty if one might be."""
    try:
        check_packages(settings.provider)
    except ConfigurationError as error:
        return str(error)
    if find_credentials(settings) is None:
        return "there is no key for the model: set ANTHROPIC_API_KEY"
    return ""
