"""Redis URLs, clients and the broker's forms of both.

Four forms of URL are understood: `redis://`, `rediss://`, `unix:///path?db=0` and
`sentinel://[user:password@]host:port,host:port/service/db[?sentinel_password=…]`.

A client from `connect` repeats a command whose connection broke (for about two seconds, which covers a restart
of a local Redis). A command may therefore run twice: callers send only commands and scripts that can be repeated.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from swarm.core.errors import ConfigurationError, RedisFull, RedisUnavailable
from swarm.core.settings import Settings
from swarm.store.outage import AnsweredClient
from swarm.store.server import NAME_RIGHTS, OLDEST_VERSION, is_unknown_command, lacks_right, read_usable

SOCKET_TIMEOUT_SECONDS = 6.0
"""Time without an answer to a command after which Redis counts as away. Blocking reads must block for less."""
WORKER_TIMEOUT_SECONDS = 2.5
"""A worker's timeout; shorter, because a worker waits anyway and so notices a silently broken connection sooner."""

_CONNECT_TIMEOUT_SECONDS = 5.0
_RETRIES = 7
_HEALTH_CHECK_SECONDS = 30
_SENTINEL_PORT = 26379
# A socket's path must fit into sun_path: 107 bytes on Linux, 103 on macOS. One limit for both.
_SOCKET_PATH_BYTES = 103
_FORMS = "redis://, rediss://, unix:// and sentinel://host:port,host:port/service/db"


# -- the local Redis ---------------------------------------------------------------------------------------


def socket_path(settings: Settings) -> Path:
    """The socket of the local Redis of this state folder: the same path in every process and shell of one user."""
    state = settings.state_folder()
    path = state / "redis" / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES:
        return path
    # Neither TMPDIR nor XDG_RUNTIME_DIR: a login shell and a cron job would look for one Redis in two places.
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    return Path("/tmp") / f"swarm-{os.geteuid()}-{digest}" / "redis.sock"


def local_url(settings: Settings) -> str:
    """The URL of the local Redis of this state folder, whether it runs or not."""
    return f"unix://{quote(str(socket_path(settings)))}?db=0"


def redis_url(settings: Settings) -> str:
    """The URL for these settings: the configured one, else the local one."""
    return settings.redis_url or local_url(settings)


def database_of(settings: Settings) -> int:
    """The number of the database; the broker's channels have it in their names."""
    url = redis_url(settings)
    if _scheme(url) == "sentinel":
        return _parse_sentinel(url).db
    parts = urlsplit(url)
    path = parts.path.strip("/") if parts.scheme != "unix" else ""
    return int(path or parse_qs(parts.query).get("db", ["0"])[0])


def redis_hosts(settings: Settings) -> list[str]:
    """The hosts of Redis or its sentinels; none for a socket of this host."""
    url = redis_url(settings)
    match _scheme(url):
        case "unix":
            return []
        case "sentinel":
            return [host for host, _ in _parse_sentinel(url).hosts]
    return [urlsplit(url).hostname or "localhost"]


def without_login(url: str) -> str:
    """Remove the user and password from a URL."""
    scheme, separator, rest = url.partition("://")
    place, mark, query = rest.partition("?")
    netloc, slash, path = place.partition("/")
    kept = [field for field in query.split("&") if field.partition("=")[0] not in ("username", "password")]
    return scheme + separator + netloc.rpartition("@")[2] + slash + path + (mark + "&".join(kept) if any(kept) else "")


def hide_password(url: str) -> str:
    """Hide the password in a URL for display and logs."""
    head, mark, query = url.partition("?")
    scheme, separator, rest = head.partition("://")
    netloc, slash, path = rest.partition("/")
    credentials, at, hosts = netloc.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        netloc = f"{user}:***@{hosts}" if colon else f"{user}@{hosts}"
    fields = [
        f"{field.partition('=')[0]}=***" if "password" in field.partition("=")[0].lower() else field
        for field in query.split("&")
    ]
    return scheme + separator + netloc + slash + path + mark + "&".join(fields)


# -- the broker's form -------------------------------------------------------------------------------------


def broker_url(url: str) -> str:
    """The URL in the form that Celery (broker and result backend) understands."""
    scheme = _scheme(url)
    if scheme == "unix":
        return _socket_broker_url(url)
    if scheme == "sentinel":
        group = _parse_sentinel(url)
        login = _login(group.username, group.password)
        return ";".join(f"sentinel://{login}{_host(host)}:{port}/{group.db}" for host, port in group.hosts)
    if scheme == "rediss" and "ssl_cert_reqs" not in parse_qs(urlsplit(url).query):
        # redis-py verifies certificates by default; the broker's transport does not.
        return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"
    return url


def broker_transport_options(url: str) -> dict[str, Any]:
    """Transport options for `broker_url(url)`, for the broker and the result backend alike."""
    if _scheme(url) != "sentinel":
        return {}
    group = _parse_sentinel(url)
    options: dict[str, Any] = {"master_name": group.service}
    if group.sentinel_password:
        options["sentinel_kwargs"] = {"password": group.sentinel_password}
    return options


def _socket_broker_url(url: str) -> str:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    username = unquote(parts.username or "") or query.get("username", [""])[0]
    password = unquote(parts.password or "") or query.get("password", [""])[0]
    database = urlencode({"virtual_host": query.get("db", ["0"])[0]})
    return f"redis+socket://{_login(username, password)}{quote(unquote(parts.path))}?{database}"


def _login(username: str | None, password: str | None) -> str:
    if not username and not password:
        return ""
    return quote(username or "", safe="") + (f":{quote(password, safe='')}" if password else "") + "@"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# -- clients -----------------------------------------------------------------------------------------------


def connect(
    target: Settings | str, *, timeout_seconds: float = SOCKET_TIMEOUT_SECONDS, retries: int = _RETRIES
) -> redis.Redis:
    """Make a client for these settings or this URL. Connects on first use; safe across threads and forks.

    Raises `ConfigurationError` for a URL that cannot be used.
    """
    url = redis_url(target) if isinstance(target, Settings) else target
    # A timeout is not retried: the command may still be running on the server.
    retry = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.05), retries, (redis.ConnectionError,))
    client: redis.Redis = _make_client(url, timeout_seconds, AnsweredClient, Sentinel, retry=retry)
    return client


def connect_async(settings: Settings, *, timeout_seconds: float) -> Any:
    """Make a client of `redis.asyncio`, which repeats no commands. Raises `ConfigurationError` for a URL that cannot be used."""
    from redis.asyncio import Redis
    from redis.asyncio.sentinel import Sentinel as AsyncSentinel

    return _make_client(redis_url(settings), timeout_seconds, Redis, AsyncSentinel)


def _make_client(url: str, timeout_seconds: float, kind: Any, sentinel: Any, **how: Any) -> Any:
    scheme = _scheme(url)
    options: dict[str, Any] = {
        **_driver(),
        **how,
        "decode_responses": True,
        "health_check_interval": _HEALTH_CHECK_SECONDS,
        "socket_timeout": timeout_seconds,
    }
    if scheme != "unix":
        options |= {
            "socket_connect_timeout": min(timeout_seconds, _CONNECT_TIMEOUT_SECONDS),
            "socket_keepalive": True,
            "socket_keepalive_options": keepalive_options(),
        }
    if scheme == "sentinel":
        return _connect_to_group(_parse_sentinel(url), options, sentinel, kind)
    try:
        return kind.from_url(url, **options)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"Redis URL {hide_password(url)}: {error}. Correct SWARM_REDIS_URL.") from error


def ping_or_raise(client: redis.Redis) -> None:
    """Return if Redis answers; else raise `RedisUnavailable` with a one-line explanation and remedy."""
    try:
        client.ping()
    except redis.AuthenticationError:
        raise RedisUnavailable(
            f"Redis at {_describe(client)[0]} rejects the login. Put user and password into SWARM_REDIS_URL: "
            "redis://user:password@host, with %40 for @ and the like."
        ) from None
    except (redis.RedisError, OSError) as error:
        where, remedy = _describe(client)
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise RedisUnavailable(f"no answer from Redis at {where} ({reason}). {remedy}") from None


def ping_server(target: Settings | str) -> dict[str, Any]:
    """The INFO of a server that answers and can be used. Raises as `connect`, `ping_or_raise` and `read_info`."""
    with connect(target) as client:
        ping_or_raise(client)
        return read_usable(client, _describe(client)[0])


def refuse_lack(client: redis.Redis, error: redis.ResponseError, what: str) -> None:
    """Raise `ConfigurationError` if `error` means that `what` is forbidden to the user or unknown to the server; return otherwise."""
    where, told = _describe(client)[0], " ".join(str(error).split()).rstrip(".")
    if lacks_right(error):
        raise ConfigurationError(f"the user of Redis at {where} may not {what} ({told}). {NAME_RIGHTS}.") from error
    if is_unknown_command(error):
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise ConfigurationError(
            f"the server at {where} cannot {what} ({told[:40]}). A swarm needs FUNCTION and FCALL of Redis {oldest} or newer, or of "
            "Valkey: upgrade it, or set SWARM_REDIS_URL to another one."
        ) from error


@contextmanager
def explained(client: redis.Redis) -> Iterator[None]:
    """Convert errors of a Redis that is away, full or unfit: `RedisUnavailable`, `RedisFull`, `ConfigurationError`.

    Costs nothing while it answers.
    """
    try:
        yield
    except redis.exceptions.OutOfMemoryError:
        raise RedisFull from None
    except (redis.RedisError, OSError) as error:
        try:
            ping_or_raise(client)
        except RedisUnavailable as told:
            # The message is complete; the driver's own errors would fill the screen.
            raise told from None
        if isinstance(error, redis.ResponseError):
            refuse_lack(client, error, "do this")
            read_usable(client, _describe(client)[0])
        raise error


def _connect_to_group(group: _Group, options: dict[str, Any], sentinels: Any, kind: Any) -> Any:
    sentinel_options: dict[str, Any] = {
        "socket_timeout": _CONNECT_TIMEOUT_SECONDS,
        "socket_connect_timeout": _CONNECT_TIMEOUT_SECONDS,
    }
    if group.sentinel_password:
        sentinel_options["password"] = group.sentinel_password
    sentinel = sentinels(group.hosts, sentinel_kwargs=sentinel_options)
    login = {"username": group.username, "password": group.password}
    return sentinel.master_for(group.service, redis_class=kind, db=group.db, **login, **options)


def _describe(client: redis.Redis) -> tuple[str, str]:
    pool = client.connection_pool
    kwargs = pool.connection_kwargs
    database = kwargs.get("db") or 0
    login = f"{kwargs.get('username') or ''}:***@" if kwargs.get("password") else ""
    remedy = "Check that it runs and that SWARM_REDIS_URL is right."
    if isinstance(pool, SentinelConnectionPool):
        sentinels = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
        hosts = ",".join(f"{_host(one['host'])}:{one['port']}" for one in sentinels)
        return f"sentinel://{login}{hosts}/{pool.service_name}/{database}", remedy
    if "path" in kwargs:
        return f"unix://{login}{kwargs['path']}?db={database}", "Start it with `swarm up`, or set SWARM_REDIS_URL."
    scheme = "rediss" if issubclass(pool.connection_class, redis.SSLConnection) else "redis"
    host, port = kwargs.get("host") or "localhost", kwargs.get("port") or 6379
    return f"{scheme}://{login}{_host(host)}:{port}/{database}", remedy


@cache
def _driver() -> dict[str, Any]:
    # A connection's description of itself. redis-py by default looks it up in the package's metadata for every new connection,
    # longer than all the rest of connecting. Older versions have no such option.
    return {"driver_info": redis.DriverInfo()} if hasattr(redis, "DriverInfo") else {}


def keepalive_options() -> dict[int, int]:
    """Options that detect a vanished peer after five seconds, instead of the system's two hours."""
    wanted = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 5_000}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}


# -- reading a URL -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """A primary and its replicas, found through sentinels."""

    hosts: list[tuple[str, int]]
    service: str
    db: int
    username: str | None
    password: str | None
    sentinel_password: str | None


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in ("redis", "rediss", "unix", "sentinel"):
        raise ConfigurationError(f"Redis URL {hide_password(url)!r} is of no known form. Use one of {_FORMS}.")
    return scheme


def _parse_sentinel(url: str) -> _Group:
    # Not `urlsplit`: a list of hosts is no host, and it refuses one with an IPv6 address.
    place, _, query = url.partition("://")[2].partition("?")
    login, _, path = place.partition("/")
    credentials, _, hosts = login.rpartition("@")
    username, _, password = credentials.partition(":")
    service, _, database = path.strip("/").partition("/")
    try:
        addresses = [_address(one) for one in hosts.split(",")]
        db = int(database or 0)
        if not service:
            raise ValueError("the name of the service is missing")
    except ValueError as error:
        raise ConfigurationError(
            f"Redis URL {hide_password(url)}: {error}. The form is sentinel://host:port,host:port/service/db."
        ) from error
    return _Group(
        hosts=addresses,
        service=unquote(service),
        db=db,
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_password=parse_qs(query).get("sentinel_password", [None])[0],
    )


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is not a host")
    return parts.hostname, parts.port or _SENTINEL_PORT
