"""Check whether a hub, this one or any git server, can be used from here."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from swarm.core.errors import GitFailed
from swarm.core.settings import Settings
from swarm.workspace.git_command import call_git

PATIENCE_SECONDS = 20.0
_NOT_THERE = re.compile("repository .* not found|does not appear to be a git repository")


def find_trouble(settings: Settings, seconds: float = PATIENCE_SECONDS) -> tuple[str, str]:
    """Why the configured hub cannot be used, or does not answer in time, and a remedy; empty if it can.

    The probed repository need not exist.
    """
    assert settings.hub
    url = settings.hub if settings.hub.endswith(".git") else f"{settings.hub}/doctor/doctor.git"
    asked = ["ls-remote", "-q", url]
    try:
        with tempfile.TemporaryDirectory() as folder:
            call_git(Path(folder), asked, token=settings.hub_token, seconds=seconds)
    except GitFailed as error:
        if _NOT_THERE.search(str(error)):
            return "", ""
        if error.trouble == "denied":
            return str(error), "set SWARM_HUB_TOKEN to the hub's token"
        return str(error), "start it (`swarm hub`), or correct SWARM_HUB"
    return "", ""
