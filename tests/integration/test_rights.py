"""Users of Redis with the rights that `swarm redis-acl` prints, and servers that a swarm cannot use: each is one clear sentence.

Tests of swarm/cli/redis_acl.py, swarm/store/broadcasts.py, swarm/store/rights.py, swarm/store/server.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from swarm import Settings, Swarm
from swarm.cli.app import app
from swarm.cli.doctor import Check, run_checks
from swarm.core.errors import ConfigurationError
from swarm.store.connection import ping_server
from swarm.store.rights import ROLES
from swarm.store.usage import UsageStore
from tests.fleet import Fleet
from tests.needs import need_program
from tests.redis_servers import OwnServer
from tests.telemetry_world import Receiver
from tests.waiting import wait_for

NOPERM = redis.exceptions.NoPermissionError


class _Server(OwnServer):
    """One with further lines in its configuration."""

    def __init__(self, *lines: str) -> None:
        super().__init__(need_program("redis-server"))
        self._more = lines

    def _lines(self) -> list[str]:
        return [*super()._lines(), *self._more]

    def url_of(self, role: str) -> str:
        return f"redis://swarm-{role}:secret-{role}@127.0.0.1:{self.port}/0"

    def refusals(self) -> set[str]:
        """What was refused to whom, and why."""
        log = self.client().acl_log()
        return {f"{one['username']} {one['reason']} {one['object']} {one['context']}" for one in log}


@pytest.fixture
def server() -> Iterator[_Server]:
    """One whose users are those that the command prints, with passwords."""
    users = [line for line in CliRunner().invoke(app, ["redis-acl"]).stdout.splitlines() if line.startswith("user")]
    lines = [line.replace(" resetpass ", f" >secret-{role} ") for role, line in zip(ROLES, users, strict=True)]
    with closing(_Server(*lines)) as server:
        server.start()
        yield server


def _fleet(server: _Server, role: str) -> Fleet:
    return Fleet(redis_url=server.url_of(role))


def _redis_check(url: str) -> Check:
    return next(check for check in run_checks(Settings(redis_url=url)) if check.name == "Redis")


def test_workers_clients_and_the_exporter_work_with_the_least_rights(server: _Server) -> None:
    with closing(_fleet(server, "worker")) as fleet, closing(Receiver()) as receiver:
        worker = fleet.start_worker(2)
        model = fleet.rehearse()
        client = Swarm(Settings(redis_url=server.url_of("client"), state_dir=fleet.folder / "client"))

        def submit(prompt: str) -> str:
            return client.submit(prompt, agent="general-purpose", workspace=fleet.workspace, base_url=model.url).id

        def command(role: str, *words: str) -> subprocess.CompletedProcess[str]:
            environment = {**fleet.environment(), "SWARM_REDIS_URL": server.url_of(role)}
            argv = [sys.executable, "-m", "swarm", *words]
            return subprocess.run(argv, env=environment, cwd=fleet.folder, capture_output=True, text=True, timeout=120)

        job = client.job(submit("TREE depth=2 fanout=2 steps=2"))
        assert job.wait(90).text == "DONE 7"
        assert "completed" in command("client", "wait", job.id).stdout
        checks = {check.name: check for check in run_checks(client.settings)}
        assert checks["Redis"].ok and checks["worker"].ok and checks["waiting jobs"].ok, checks
        assert [holder.held.total > 0 for holder in UsageStore(client.store.keyspace).jobs()] == [True]
        long = client.job(submit("TREE depth=0 fanout=0 steps=5000 think=200"))
        wait_for("it works", lambda: long.view().turns > 0)
        assert command("client", "cancel", long.id).returncode == 0
        assert long.wait(60).state == "cancelled"
        told = command("exporter", "telemetry", "--otlp", receiver.url, "--once")
        assert told.returncode == 0 and receiver.spans and receiver.metrics, told.stderr
        assert worker.stop() == 0
        assert not server.refusals()


@pytest.mark.parametrize(
    ("role", "refused"),
    [
        (
            "worker",
            ["FLUSHALL", "GET other:key", "SET other:key 1", "SET swarm2:key 1", "CONFIG GET *", "KEYS *", "SCAN 0"],
        ),
        (
            "client",
            ["FLUSHALL", "GET other:key", "SET swarm2:key 1", "FUNCTION FLUSH", "FUNCTION DELETE x", "PUBLISH other 1"],
        ),
        ("exporter", ["FLUSHALL", "GET other:key", "SET swarm:job:x 1", "LPUSH swarm 1", "PUBLISH /0.swarm.pidbox 1"]),
    ],
)
def test_no_user_reaches_beyond_its_task(server: _Server, role: str, refused: list[str]) -> None:
    with redis.Redis.from_url(server.url_of(role)) as client:
        assert client.ping() and client.get("swarm:key") is None
        for command in refused:
            with pytest.raises(NOPERM):
                client.execute_command(*command.split())


def test_a_client_before_any_worker_is_told_that_a_worker_brings_the_steps(server: _Server, tmp_path: Path) -> None:
    client = Swarm(Settings(redis_url=server.url_of("client"), state_dir=tmp_path / "s"))
    with pytest.raises(ConfigurationError, match=r"load the steps of this version.*swarm redis-acl"):
        client.submit("go", agent="general-purpose", workspace=tmp_path)


def test_a_right_that_is_missing_is_named_with_the_command_that_prints_it(server: _Server, tmp_path: Path) -> None:
    server.client().execute_command("ACL", "SETUSER", "swarm-worker", "-info")
    check = _redis_check(server.url_of("worker"))
    assert not check.ok and not check.needed and "swarm redis-acl" in check.remedy
    server.client().execute_command("ACL", "SETUSER", "swarm-worker", "-fcall")
    check = _redis_check(server.url_of("worker"))
    assert not check.ok and check.needed and "swarm redis-acl" in check.remedy
    swarm = Swarm(Settings(redis_url=server.url_of("worker"), state_dir=tmp_path / "s"))
    with pytest.raises(ConfigurationError, match=r"may not run the step .*fcall.*swarm redis-acl"):
        swarm.submit("go", agent="general-purpose", workspace=tmp_path)


def test_a_redis_cluster_is_refused_by_clients_doctor_and_workers() -> None:
    with closing(_Server("cluster-enabled yes")) as server:
        server.start()
        server.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for("it serves", lambda: server.client().cluster("INFO")["cluster_state"] == "ok")
        with closing(Fleet(redis_url=server.url)) as fleet:
            with pytest.raises(ConfigurationError, match=r"is a Redis Cluster.*SWARM_REDIS_URL"):
                ping_server(server.url)
            with pytest.raises(ConfigurationError, match="is a Redis Cluster"):
                fleet.swarm.submit("go", agent="general-purpose", workspace=fleet.workspace)
            check = _redis_check(server.url)
            assert check.needed and not check.ok and "is a Redis Cluster" in check.remedy
            worker = fleet.begin_worker(1)
            assert worker.process.wait(60) != 0
            assert "is a Redis Cluster" in worker.text()


def test_a_redis_without_functions_is_refused(tmp_path: Path) -> None:
    with closing(_Server('rename-command FUNCTION ""', 'rename-command FCALL ""')) as server:
        server.start()
        swarm = Swarm(Settings(redis_url=server.url, state_dir=tmp_path / "s"))
        with pytest.raises(ConfigurationError, match=r"needs FUNCTION and FCALL of Redis 7\.0"):
            swarm.submit("go", agent="general-purpose", workspace=tmp_path)


def test_what_may_lose_data_is_told_by_doctor_and_in_a_workers_log() -> None:
    with closing(_Server("maxmemory-policy allkeys-lru", "appendonly no")) as server:
        server.start()
        check = _redis_check(server.url)
        assert not check.ok and not check.needed
        assert "allkeys-lru): set it to noeviction" in check.remedy and "appendonly yes" in check.remedy
        with closing(Fleet(redis_url=server.url)) as fleet:
            worker = fleet.start_worker(1)
            for words in ("set it to noeviction", "set appendonly yes"):
                wait_for(words, lambda words=words: words in worker.text())  # type: ignore[misc]
