"""Exposures of a worker's host and Redis: one list, for `swarm doctor` and for a worker's start."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from swarm.core.errors import SwarmError
from swarm.core.settings import Settings
from swarm.permissions.sandbox import Backend, choose_backend, network_trouble
from swarm.store.connection import hide_password, ping_server, redis_hosts, redis_url, without_login
from swarm.store.outage import RedisError
from swarm.store.server import find_faults

_FILES = ("swarm.env", "client.env", "exporter.env", "redis-password.conf")
_SECRETS = (
    *(f"/etc/swarm/{name}" for name in _FILES),
    "~/.config/swarm/swarm.env",
    "~/.aws/credentials",
    "~/.config/anthropic",
)
_SECRET_VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "ANTHROPIC_IDENTITY_TOKEN_FILE")


@dataclass(frozen=True)
class Exposure:
    """One exposure, with its remedy."""

    name: str
    found: str
    remedy: str


def find_exposures(settings: Settings) -> list[Exposure]:
    """Find all exposures; an unreachable Redis hides its own."""
    return [*_redis(settings), *_ceilings(settings), *_sandbox(settings), *_secrets()]


def _redis(settings: Settings) -> Iterator[Exposure]:
    url, hosts = redis_url(settings), redis_hosts(settings)
    try:
        faults = find_faults(ping_server(settings), replicated=url.startswith("sentinel:"))
    except (SwarmError, RedisError):
        faults = iter(())
    for fault in faults:
        yield Exposure("Redis", fault.found, fault.remedy)
    if not hosts:
        return
    if _takes_anybody(settings):
        yield Exposure(
            "open Redis",
            f"{hide_password(url)} asks for no password: anyone who reaches it can run agents on every worker",
            "set `requirepass` (deploy/make-secrets makes one), and put it into SWARM_REDIS_URL",
        )
    if urlsplit(url).scheme == "redis" and not all(map(_is_loopback, hosts)):
        yield Exposure(
            "readable Redis",
            f"{hide_password(url)} is reached without TLS: the network can read prompts, files and the password",
            "use rediss://, or keep it in a private network of the fleet",
        )


def _takes_anybody(settings: Settings) -> bool:
    """Whether Redis accepts a connection without a password."""
    try:
        ping_server(without_login(redis_url(settings)))
    except SwarmError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ceilings(settings: Settings) -> Iterator[Exposure]:
    if settings.redis_url is None:
        return
    unset = {"SWARM_WORKSPACES": settings.workspaces, "SWARM_MODE_CEILING": settings.mode_ceiling}
    missing = [name for name, value in unset.items() if not value]
    if missing:
        yield Exposure(
            "no ceiling",
            f"{' and '.join(missing)} not set: jobs from any Redis client may use any folder and mode",
            "set them where the worker runs: the allowed folders of workspaces, and the most permissive mode",
        )


def _sandbox(settings: Settings) -> Iterator[Exposure]:
    backend = choose_backend(settings.sandbox)
    if not isinstance(backend, Backend):
        found = f"none ({backend.reason}): the shell of a writing agent can do what this user can"
        yield Exposure("no sandbox", found, backend.remedy or "make one work")
        return
    if backend.name != "bubblewrap":
        yield Exposure("no bubblewrap", f"{backend.name} does not hold: {'; '.join(backend.missing)}", backend.note)
    if settings.network != "off" and (trouble := network_trouble(backend)):
        yield Exposure(
            "no network",
            f"jobs with --network get none here: {trouble}",
            "make slirp4netns work here, or set SWARM_NETWORK=off",
        )


def _secrets() -> Iterator[Exposure]:
    named = (os.environ.get(name, "") for name in _SECRET_VARIABLES)
    for path in (Path(text).expanduser() for text in (*_SECRETS, *named) if text):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            found = f"{path} holds secrets, and every user of this host can read it"
            yield Exposure("readable secrets", found, f"chmod o= {path}")
