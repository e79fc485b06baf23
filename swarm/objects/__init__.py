"""Objects: content that is too large for Redis, named by its SHA-256 and owned by one job.

Guarantees:

- An object is written whole or not at all, and never changed. Writing it again changes nothing.
- Content read whole is checked against its name. A part is checked by the store alone.
- Jobs share no objects, so all of a job's objects can be deleted at once, and one alone.
"""

from __future__ import annotations

from pathlib import Path

from swarm.core.settings import Settings
from swarm.objects.folder import FolderObjects
from swarm.objects.port import Objects


def open_objects(settings: Settings) -> Objects:
    """Open the store of `SWARM_OBJECTS`; without it the hub's; without a hub that answers HTTP, a folder of this host.

    Nothing connects yet. Raises `ConfigurationError` if a library is missing.
    """
    where = settings.objects
    if where is None and is_swarm_hub(settings.hub):
        from swarm.objects.hub import HubObjects

        return HubObjects(settings.hub or "", settings.hub_token)
    if where is None or where.startswith("/"):
        return FolderObjects(Path(where) if where else settings.state_folder() / "objects")
    from swarm.objects.remote import RemoteObjects

    return RemoteObjects(where)


def open_shared_objects(settings: Settings) -> Objects | None:
    """Open the same store as `open_objects` if all workers of the fleet reach it; else return None."""
    is_one_host = settings.redis_url is None or settings.redis_url.startswith("unix:")
    return open_objects(settings) if settings.objects or is_swarm_hub(settings.hub) or is_one_host else None


def is_swarm_hub(url: str | None) -> bool:
    """Whether a hub's URL can be that of `swarm hub`, which keeps objects beside the files; another git server does not."""
    return bool(url) and str(url).startswith(("http://", "https://")) and not str(url).endswith(".git")
