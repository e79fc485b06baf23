"""The token that opens the page in a Flower without a login, readable only by the user who started it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from swarm.core.settings import Settings
from swarm.local.folders import make_state_folder


def token_file(settings: Settings) -> Path:
    """Path of the stored token, which outlives Flower."""
    return settings.state_folder() / "flower-token"


def find_token(settings: Settings) -> str | None:
    """The stored or configured token, if there is one."""
    if settings.flower_token:
        return settings.flower_token
    try:
        return token_file(settings).read_text().strip() or None
    except OSError:
        return None


def make_token(settings: Settings) -> str:
    """Return the configured or stored token, or make one; if it cannot be stored, it ends with this process."""
    if known := find_token(settings):
        return known
    token = secrets.token_urlsafe(24)
    try:
        make_state_folder(settings)
        file = os.open(token_file(settings), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return find_token(settings) or token
    except OSError:
        return token
    with os.fdopen(file, "w") as kept:
        kept.write(token)
    return token


def page_url(flower_url: str, token: str | None) -> str:
    """The address that opens the page."""
    return f"{flower_url}/swarm" + (f"?token={token}" if token else "")
