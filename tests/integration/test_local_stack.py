"""The local stack with a real Redis, real workers and a real Flower.

Tests of swarm/local/folders.py, swarm/local/processes.py, swarm/local/records.py, swarm/local/redis_server.py, swarm/local/stack.py,
swarm/local/workers.py, swarm/workspace/private.py.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.local.processes import wait_for_exit
from swarm.local.records import load_records
from swarm.local.redis_server import ensure_redis, find_redis, stop_redis
from swarm.local.stack import down, has_worker, running, status, temporary_stack, up
from swarm.local.workers import default_concurrency
from swarm.store.connection import local_url

_ROOT = Path(__file__).resolve().parents[2]

_USE = """
import sys
from pathlib import Path
from swarm.local.stack import temporary_stack
from swarm.core.settings import Settings
with temporary_stack(Settings(state_dir=Path(sys.argv[1])), concurrency=1) as stack:
    print(stack.workers[0].pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(state_dir=tmp_path / "s")
    yield settings
    down(settings, grace_seconds=5)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A stack that is up, for tests that leave it as it is."""
    settings = Settings(state_dir=tmp_path_factory.mktemp("standing") / "s")
    up(settings, concurrency=1)
    yield settings
    down(settings, grace_seconds=5)


def _family(settings: Settings) -> set[psutil.Process]:
    """Every process of the stack."""
    found = {process for record in load_records(settings) for process in record.family()}
    server = find_redis(settings)
    return found | ({server} if server else set())


def _user(settings: Settings) -> tuple[subprocess.Popen[str], int]:
    """Another command that uses a temporary stack until it reads a line, and the worker that it uses."""
    child = subprocess.Popen(
        [sys.executable, "-c", _USE, str(settings.state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def test_up_makes_a_temporary_stack_permanent_adds_what_is_missing_and_down_leaves_no_process(
    settings: Settings,
) -> None:
    assert not running(settings)
    assert not has_worker(settings)
    with temporary_stack(settings, concurrency=2) as stack:
        assert stack == status(settings)
        assert stack.redis.running
        [worker] = stack.workers
        assert worker.temporary and worker.ready and worker.concurrency == 2
        assert "swarm-" in worker.log.read_text()
        assert psutil.Process(worker.pid).environ()["SWARM_REDIS_URL"] == local_url(settings)
        up(settings, concurrency=2)
    left = status(settings)
    assert [one.pid for one in left.workers] == [worker.pid] and not left.workers[0].temporary
    assert running(settings) and has_worker(settings)

    larger = up(settings, workers=2, concurrency=1, flower_port=0)
    assert larger.workers[:1] == left.workers and len(larger.workers) == 2
    assert larger.redis.pid == stack.redis.pid
    flower = larger.flower
    assert flower is not None
    with pytest.raises(urllib.error.HTTPError, match="403"):  # without the page's token
        urllib.request.urlopen(f"{flower.url}/healthcheck", timeout=20)
    assert up(settings, concurrency=1, flower_port=0) == larger, "it keeps what runs"

    family = _family(settings)
    assert {stack.redis.pid, worker.pid, flower.pid} < {process.pid for process in family}
    down(settings)
    assert wait_for_exit(family, deadline_seconds=0.1)
    stack = status(settings)
    assert (stack.redis.running, stack.workers, stack.flower) == (False, [], None)
    assert not running(settings)
    down(settings)
    assert load_records(settings) == []


@pytest.mark.long
def test_a_temporary_stack_stops_only_what_it_started_also_by_an_error(settings: Settings) -> None:
    with temporary_stack(settings, concurrency=1) as stack:
        assert stack.redis.running and len(stack.workers) == 1
        family = _family(settings)
    assert wait_for_exit(family, deadline_seconds=0.1)
    assert load_records(settings) == [] and find_redis(settings) is None

    up(settings, workers=0)
    with pytest.raises(KeyboardInterrupt), temporary_stack(settings, concurrency=1) as stack:
        family = _family(settings) - {find_redis(settings)}
        raise KeyboardInterrupt
    assert family and wait_for_exit(family, deadline_seconds=0.1)
    left = status(settings)
    assert (left.workers, left.redis) == ([], stack.redis)
    assert load_records(settings) == []


def test_down_of_nothing_does_nothing(settings: Settings) -> None:
    down(settings)
    assert not settings.state_folder().exists()


@pytest.mark.long
def test_ups_at_the_same_time_start_one_stack_whose_redis_can_be_kept(settings: Settings) -> None:
    script = (
        "import sys; from pathlib import Path; from swarm.local.stack import up; from swarm.core.settings import Settings; "
        "print(up(Settings(state_dir=Path(sys.argv[1])), concurrency=1).workers[0].pid)"
    )

    def run(_: int) -> str:
        command = [sys.executable, "-c", script, str(settings.state_dir)]
        return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=100, check=True).stdout

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(run, range(3)))) == 1
    stack = status(settings)
    assert len(stack.workers) == 1
    down(settings, keep_redis=True)
    left = status(settings)
    assert (left.workers, left.redis) == ([], stack.redis)
    assert not running(settings)


@pytest.mark.long
def test_what_was_killed_is_started_again_and_a_worker_that_ignores_requests_to_stop_is_killed(
    settings: Settings,
) -> None:
    [worker] = up(settings, concurrency=2).workers
    leader = psutil.Process(worker.pid)
    children = leader.children(recursive=True)
    assert children
    # Stopped children cannot notice that their parent has gone.
    for child in children:
        child.suspend()
    leader.kill()
    assert wait_for_exit([leader], deadline_seconds=20)
    assert not has_worker(settings)
    [replacement] = up(settings, concurrency=2).workers
    assert replacement.pid != worker.pid
    assert wait_for_exit(children, deadline_seconds=0.1), "orphans are ended"

    server = find_redis(settings)
    assert server is not None
    server.kill()
    assert wait_for_exit([server], deadline_seconds=20)
    assert not status(settings).redis.running
    assert not running(settings)
    stack = up(settings, concurrency=2)
    assert stack.redis.running and stack.redis.pid != server.pid
    assert len(stack.workers) == 1

    family = _family(settings)
    for process in family - {find_redis(settings)}:
        process.suspend()
    down(settings, grace_seconds=0.5)
    assert wait_for_exit(family, deadline_seconds=0.1)


def test_a_worker_that_cannot_start_is_an_error_that_quotes_its_log_and_leaves_nothing(settings: Settings) -> None:
    settings.state_folder().mkdir()
    # The worker's interpreter finds this before the real one.
    (settings.state_folder() / "celery.py").write_text("raise SystemExit('broken on purpose')\n")
    with pytest.raises(ConfigurationError, match=r"(?s)the worker ended before it was ready.*broken on purpose"):
        up(settings)
    assert find_redis(settings) is None
    assert load_records(settings) == []


def test_a_hub_of_this_machine_is_started_before_the_workers_and_ended_after_them(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    ours = settings.model_copy(update={"hub": url})
    with pytest.raises(ConfigurationError, match="SWARM_HUB_TOKEN is not set"):
        up(ours, workers=0)
    ours = ours.model_copy(update={"hub_token": "word"})
    stack = up(ours, workers=0)
    assert stack.hub is not None and stack.hub.url == url
    with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
        assert answer.read() == b"ok\n"
    assert up(ours, workers=0).hub == stack.hub, "it is kept"
    down(ours)
    assert not psutil.pid_exists(stack.hub.pid)


def test_a_taken_port_for_flower_is_refused_and_nothing_is_left(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} cannot be used for Flower"):
            up(settings, concurrency=1, flower_port=port)
    assert load_records(settings) == []
    assert find_redis(settings) is None


def test_a_temporary_stack_uses_what_is_up_and_leaves_it(standing: Settings) -> None:
    before = status(standing)
    assert before.redis.running and before.workers
    with temporary_stack(standing) as stack:
        assert stack == before
    assert status(standing) == before


def test_the_last_of_several_users_stops_a_temporary_stack_also_if_its_starter_was_killed(settings: Settings) -> None:
    starter, worker = _user(settings)
    starter.send_signal(signal.SIGKILL)
    starter.communicate(timeout=60)
    assert running(settings)
    second, same = _user(settings)
    assert same == worker
    with temporary_stack(settings) as stack:
        assert [one.pid for one in stack.workers] == [worker]
        second.communicate("\n", timeout=60)
        assert second.returncode == 0
        assert running(settings)
    assert status(settings).workers == []
    assert find_redis(settings) is None


def test_workers_elsewhere_on_the_redis_that_is_set_are_found_and_used(standing: Settings, tmp_path: Path) -> None:
    elsewhere = Settings(state_dir=tmp_path / "client", redis_url=local_url(standing))
    assert has_worker(elsewhere)
    with temporary_stack(elsewhere) as stack:
        assert (stack.workers, stack.redis.origin, stack.redis.running) == ([], "external", True)
    with (
        pytest.raises(ConfigurationError, match="SWARM_REDIS_URL"),
        temporary_stack(elsewhere, base_url="http://127.0.0.1:9"),
    ):
        pass
    assert running(standing)


def test_workers_of_another_swarm_on_the_same_redis_do_not_count(standing: Settings, tmp_path: Path) -> None:
    other = Settings(state_dir=tmp_path / "client", redis_url=local_url(standing), key_prefix="other")
    assert not has_worker(other)


def test_without_workers_on_the_redis_that_is_set_a_temporary_stack_brings_its_own_with_the_settings_of_the_call(
    settings: Settings, tmp_path: Path
) -> None:
    url = ensure_redis(settings)
    elsewhere = Settings(state_dir=tmp_path / "client", redis_url=url, key_prefix="other", lease_seconds=7.5)
    assert not has_worker(elsewhere)
    with temporary_stack(elsewhere, concurrency=1, base_url="http://127.0.0.1:9") as stack:
        [worker] = stack.workers
        assert has_worker(elsewhere)
        environment = psutil.Process(worker.pid).environ()
        assert environment["SWARM_KEY_PREFIX"] == "other"
        assert environment["SWARM_LEASE_SECONDS"] == "7.5"
        assert environment["SWARM_BASE_URL"] == "http://127.0.0.1:9"
        assert environment["SWARM_REDIS_URL"] == url
        assert psutil.Process(worker.pid).cwd() == str(elsewhere.state_folder())
        assert stack.workers[0].base_url == "http://127.0.0.1:9"
        # It is not passed off as one of another model server.
        with pytest.raises(ConfigurationError, match=r"http://127\.0\.0\.1:9.*swarm down"), temporary_stack(elsewhere):
            pass
        assert running(elsewhere)
    assert status(elsewhere).workers == []
    assert find_redis(settings) is not None
    stop_redis(settings)


def test_the_default_concurrency_suits_the_machine() -> None:
    assert 2 <= default_concurrency() <= 8
