"""Whether the hub that is set is one of this machine, which the local stack then has to start."""

from __future__ import annotations

from urllib.parse import urlsplit

from swarm.errors import ConfigurationError
from swarm.settings import Settings

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORT = 80


def find_own_hub(settings: Settings) -> tuple[str, int] | None:
    """Where the stack's hub has to listen; None where the hub is another machine's, no server, or not set.

    Raises `ConfigurationError` where it would be ours and lacks its token.
    """
    parts = urlsplit(settings.hub or "")
    if parts.scheme != "http" or parts.hostname not in _LOOPBACK:
        return None
    if not settings.hub_token:
        raise ConfigurationError(
            f"SWARM_HUB is {settings.hub}, on this machine, and SWARM_HUB_TOKEN is not set: any secret word, the same everywhere"
        )
    return parts.hostname, parts.port or _PORT
