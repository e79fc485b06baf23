"""`swarm join`: make this machine a host of a fleet, with the settings that its other hosts have."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import sys
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from swarm.agent.hosts import HostState, settings_in_common
from swarm.agent.needs import Has
from swarm.cli.doctor import check_fleet, print_checks, run_checks
from swarm.cli.output import print_line, print_note
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.release import VERSION
from swarm.core.settings import Settings, load_settings
from swarm.local.settings_file import default_place, read_settings, write_settings
from swarm.store.connection import ping_server, without_login
from swarm.tasks.host import KEYS, find_state


def join(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="The fleet's Redis, without its password: redis://USER@HOST."),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="The settings file to write.")] = None,
) -> None:
    """Configure this machine as a host of a fleet, and check it; again, after the fleet has changed.

    It writes a settings file: Redis, the settings that the other hosts share (hub, checkouts, objects, model …), and this command's own
    SWARM_ variables and keys, which come first. It names what this host lacks. The password is read from standard input, so that
    it is in no command line. Exit code 1 if something needed is missing.
    """
    path = file or default_place()
    kept = read_settings(path)
    given = {name: value for name, value in os.environ.items() if value and (_is_setting(name) or name in KEYS)}
    place = url or given.get("SWARM_REDIS_URL") or kept.get("SWARM_REDIS_URL")
    if not place:
        raise ConfigurationError("name the fleet's Redis: swarm join redis://USER@HOST:6379/0")
    given["SWARM_REDIS_URL"] = _with_password(place, [given.get("SWARM_REDIS_URL"), kept.get("SWARM_REDIS_URL")])
    os.environ.update({**kept, **given})
    info = ping_server(load_settings())
    others = [has for has in Swarm(load_settings()).workers() if has.host != socket.gethostname()]
    values = {**settings_in_common(others), **given}
    os.environ.update(values)
    settings = load_settings()
    changed = write_settings(path, values)
    print_line(f"{path}: set {', '.join(changed)}" if changed else f"{path}: nothing to change")
    here = _describe(settings, float(info.get("server_time_usec", 0)) / 1e6)
    differing = [check for check in check_fleet(settings, [*others, here]) if not check.ok]
    checks = [*run_checks(settings), *differing]
    print_checks(checks)
    if any(check.needed and not check.ok for check in checks):
        raise typer.Exit(1)
    print_note(
        f"start a worker: swarm --env {shlex.quote(str(path))} worker; with systemd: systemctl restart swarm-worker"
    )


def _is_setting(name: str) -> bool:
    return name.startswith("SWARM_") and name.removeprefix("SWARM_").lower() in Settings.model_fields


def _with_password(url: str, known: list[str | None]) -> str:
    """Complete the URL of a user by a known password, or by one from standard input."""
    scheme, _, rest = url.partition("://")
    login, at, place = rest.partition("@")
    if not at or ":" in login:
        return url
    for other in known:
        if other and without_login(other) == without_login(url) and f"://{login}:" in other:
            return other
    if sys.stdin.isatty():
        password = getpass.getpass(f"password of {login or 'the default user'}: ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise ConfigurationError(f"give the password of {login} on standard input: swarm join {url} < FILE")
    return f"{scheme}://{login}:{quote(password, safe='')}@{place}"


def _describe(settings: Settings, redis_now: float) -> Has:
    """Describe this host as its workers will."""
    offset = round(time.time() - redis_now, 1) if redis_now else 0.0
    return Has(
        hub=settings.hub or "",
        checkouts=str(settings.checkouts_folder()),
        host=socket.gethostname(),
        version=VERSION,
        host_state=HostState(**find_state(settings), clock_offset=offset),
    )
