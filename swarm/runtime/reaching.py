"""Which addresses of the web this worker reaches for others."""

from __future__ import annotations

from swarm.permissions.sandbox import resolve_hosts
from swarm.settings import Settings
from swarm.store.connection import redis_hosts
from swarm.tools.web.reach import Reach, own_addresses


def find_reach(settings: Settings, *, private: bool) -> Reach:
    """Never this host or Redis, but for the hosts that the operator has named; private networks only with `private`."""
    excepted = {host.strip() for host in settings.web_hosts.split(",") if host.strip()}
    never = own_addresses() | set(resolve_hosts(redis_hosts(settings)))
    return Reach(private=private, never=never, excepted=excepted)
