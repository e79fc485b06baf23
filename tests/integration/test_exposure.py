"""What is open is said, by `swarm doctor` and by a worker that starts: with a real Redis, open and closed.

Tests of swarm/local/exposure.py.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from swarm.core.settings import Settings
from swarm.local.exposure import find_exposures
from swarm.store.connection import without_login
from tests.fleet import Fleet
from tests.needs import need_program
from tests.waiting import wait_for

PASSWORD = "correct-horse-battery"


def _serve(folder: Path, password: str) -> Iterator[int]:
    program = need_program("redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    configuration = folder / "redis.conf"
    configuration.write_text(
        f'port {port}\nbind 127.0.0.1\nsave ""\n' + (f"requirepass {password}\n" if password else "")
    )
    server = subprocess.Popen([program, str(configuration), "--dir", str(folder)], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, password=password or None)
    try:
        wait_for("Redis answers", lambda: _answers(client))
        yield port
    finally:
        client.close()
        server.kill()
        server.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture
def open_port(tmp_path: Path) -> Iterator[int]:
    yield from _serve(tmp_path, "")


@pytest.fixture
def closed_port(tmp_path: Path) -> Iterator[int]:
    yield from _serve(tmp_path, PASSWORD)


def _names(**settings: str) -> set[str]:
    return {exposure.name for exposure in find_exposures(Settings.model_validate(settings))}


def test_a_redis_without_a_password_is_open_and_one_with_is_not(open_port: int, tmp_path: Path) -> None:
    assert {"open Redis", "no ceiling"} <= _names(redis_url=f"redis://127.0.0.1:{open_port}/0")
    ceilings = {"workspaces": "/srv/swarm", "mode_ceiling": "acceptEdits"}
    assert "no ceiling" not in _names(redis_url=f"redis://127.0.0.1:{open_port}/0", **ceilings)


def test_a_redis_with_a_password_is_asked_without_it(closed_port: int) -> None:
    found = _names(redis_url=f"redis://:{PASSWORD}@127.0.0.1:{closed_port}/0")
    assert not {"open Redis", "readable Redis"} & found


def test_a_redis_elsewhere_without_tls_is_readable_and_the_password_is_not_shown() -> None:
    found = find_exposures(Settings(redis_url=f"redis://:{PASSWORD}@nowhere.invalid:6379/0"))
    assert "readable Redis" in {each.name for each in found}
    assert not any(PASSWORD in each.found + each.remedy for each in found)
    assert "readable Redis" not in _names(redis_url="rediss://nowhere.invalid:6379/0")


def test_no_sandbox_is_said_and_secrets_that_everybody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    key.chmod(0o644)
    found = {each.name: each for each in find_exposures(Settings(sandbox="off", state_dir=tmp_path))}
    assert {"no sandbox", "readable secrets"} <= found.keys() and str(key) in found["readable secrets"].found
    key.chmod(0o600)
    assert "readable secrets" not in _names(sandbox="off", state_dir=str(tmp_path))
    assert not {"no ceiling", "open Redis"} & found.keys(), "the local Redis is a socket of one's own"


def test_worker_and_doctor_say_it_both(open_port: int) -> None:
    fleet = Fleet()
    try:
        environment = {**fleet.environment(), "SWARM_REDIS_URL": f"redis://127.0.0.1:{open_port}/0"}
        worker = fleet.start_worker(1, SWARM_REDIS_URL=environment["SWARM_REDIS_URL"])
        wait_for("the worker says it", lambda: "no ceiling" in worker.text() and "open Redis" in worker.text())
        ran = subprocess.run(
            [sys.executable, "-m", "swarm", "doctor"], env=environment, capture_output=True, text=True, timeout=120
        )
        assert "open Redis" in ran.stdout and "no ceiling" in ran.stdout and "make-secrets" in ran.stdout
    finally:
        fleet.close()


def test_a_login_is_taken_out_of_every_form_of_url() -> None:
    for url, bare in (
        ("redis://:pw@h:1/0", "redis://h:1/0"),
        ("rediss://user:pw@h/0?ssl_cert_reqs=none&password=x", "rediss://h/0?ssl_cert_reqs=none"),
        ("sentinel://u:p@a:1,b:2/s/0?sentinel_password=x", "sentinel://a:1,b:2/s/0?sentinel_password=x"),
        ("redis://h?password=x", "redis://h"),
    ):
        assert without_login(url) == bare
