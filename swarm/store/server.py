"""Judge whether a Redis server is fit for a swarm: its version, kind, memory policy and persistence, and its user's rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from swarm.core.errors import ConfigurationError

OLDEST_VERSION = (7, 0)
"""The first Redis version with functions, which every atomic step needs; every Valkey has them."""
NAME_RIGHTS = "`swarm redis-acl` prints the rights that each user needs"
_IN_SCRIPT = ("acl failure in script", "the user executing the script can't")


@dataclass(frozen=True)
class ServerFault:
    """A property of the server that a swarm cannot work with (`fatal`), or works with at a risk."""

    found: str
    remedy: str
    fatal: bool = False


def read_info(client: redis.Redis) -> dict[str, Any]:
    """The server's INFO; empty if its user may not run that. Raises `redis.RedisError`."""
    try:
        info: Any = client.info()
    except redis.ResponseError as error:
        if not (lacks_right(error) or is_unknown_command(error)):
            raise
        return {}
    return dict(info)


def find_faults(info: Mapping[str, Any], *, replicated: bool = False) -> Iterator[ServerFault]:
    """Judge a server by its INFO; `replicated`: it is found through sentinels."""
    if not info:
        yield ServerFault(
            "its user may not run INFO, so its version, memory policy and persistence are unknown",
            f"allow +info: {NAME_RIGHTS}",
        )
        return
    version, oldest = str(info.get("redis_version", "")), ".".join(map(str, OLDEST_VERSION))
    if info.get("cluster_enabled") or info.get("redis_mode") == "cluster":
        yield ServerFault(
            "it is a Redis Cluster, and a step uses keys of several slots",
            "set SWARM_REDIS_URL to one Redis, with replicas and Sentinel if needed",
            fatal=True,
        )
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_VERSION:
        yield ServerFault(
            f"version {version} has no Redis Functions", f"upgrade it to Redis {oldest} or newer, or Valkey", fatal=True
        )
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        yield ServerFault(f"it may evict data (maxmemory-policy {info['maxmemory_policy']})", "set it to noeviction")
    if not info.get("aof_enabled"):
        yield ServerFault("a restart of it loses the latest steps", "set appendonly yes")
    # The server reports good replicas only if it requires some.
    if replicated and "min_slaves_good_slaves" not in info:
        yield ServerFault(
            "a change of primary may lose seconds of everything", "set min-replicas-to-write 1 on all its servers"
        )


def read_usable(client: redis.Redis, where: str) -> dict[str, Any]:
    """The INFO of a server that a swarm can work with. Raises `ConfigurationError` for any other, and `redis.RedisError`."""
    info = read_info(client)
    for fault in find_faults(info):
        if fault.fatal:
            raise ConfigurationError(f"Redis at {where} cannot be used: {fault.found}. Remedy: {fault.remedy}.")
    return info


def lacks_right(error: BaseException) -> bool:
    """Whether Redis refused a command because of its user's rights."""
    return isinstance(error, redis.exceptions.NoPermissionError) or any(one in str(error).lower() for one in _IN_SCRIPT)


def is_unknown_command(error: BaseException) -> bool:
    """Whether the server has no such command."""
    return isinstance(error, redis.ResponseError) and "unknown command" in str(error).lower()
