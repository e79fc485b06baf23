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


def test_up_brings_redis_and_a_worker_and_down_leaves_no_process(settings: Settings) -> None:
    assert not running(settings)
    assert not has_worker(settings)
    stack = up(settings, concurrency=2)
    assert stack == status(settings)
    assert stack.redis.running
    [worker] = stack.workers
    assert worker.ready and worker.concurrency == 2
    assert "swarm-" in worker.log.read_text()
    assert running(settings) and has_worker(settings)
    family = _family(settings)
    assert {stack.redis.pid, worker.pid} < {process.pid for process in family}
    down(settings)
    assert wait_for_exit(family, deadline_seconds=0.1)
    stack = status(settings)
    assert (stack.redis.running, stack.workers, stack.flower) == (False, [], None)
    assert not running(settings)


def test_down_of_nothing_does_nothing_however_often(settings: Settings) -> None:
    down(settings)
    assert not settings.state_folder().exists()
    up(settings, concurrency=1)
    down(settings)
    down(settings)
    assert load_records(settings) == []


def test_up_keeps_what_runs_and_adds_what_is_missing(settings: Settings) -> None:
    first = up(settings, concurrency=1)
    assert up(settings, concurrency=1).workers == first.workers
    second = up(settings, workers=2, concurrency=1)
    assert second.workers[:1] == first.workers and len(second.workers) == 2
    assert second.redis.pid == first.redis.pid


def test_ups_at_the_same_time_start_one_stack(settings: Settings) -> None:
    script = (
        "import sys; from pathlib import Path; from swarm.local.stack import up; from swarm.core.settings import Settings; "
        "print(up(Settings(state_dir=Path(sys.argv[1])), concurrency=1).workers[0].pid)"
    )

    def run(_: int) -> str:
        command = [sys.executable, "-c", script, str(settings.state_dir)]
        return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=100, check=True).stdout

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(run, range(3)))) == 1
    assert len(status(settings).workers) == 1


def test_redis_can_be_kept(settings: Settings) -> None:
    stack = up(settings, concurrency=1)
    down(settings, keep_redis=True)
    left = status(settings)
    assert (left.workers, left.redis) == ([], stack.redis)
    assert not running(settings)


def test_a_killed_redis_is_reported_and_up_starts_it_again(settings: Settings) -> None:
    up(settings, concurrency=1)
    server = find_redis(settings)
    assert server is not None
    server.kill()
    assert wait_for_exit([server], deadline_seconds=20)
    assert not status(settings).redis.running
    assert not running(settings)
    stack = up(settings, concurrency=1)
    assert stack.redis.running and stack.redis.pid != server.pid
    assert len(stack.workers) == 1


def test_a_killed_worker_is_forgotten_and_its_orphans_are_ended(settings: Settings) -> None:
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
    assert wait_for_exit(children, deadline_seconds=0.1)


def test_a_worker_that_ignores_requests_to_stop_is_killed(settings: Settings) -> None:
    up(settings, concurrency=2)
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


def test_a_worker_for_another_model_server_is_not_passed_off_as_ours(settings: Settings) -> None:
    up(settings, concurrency=1, base_url="http://127.0.0.1:9")
    assert status(settings).workers[0].base_url == "http://127.0.0.1:9"
    with pytest.raises(ConfigurationError, match=r"http://127\.0\.0\.1:9.*swarm down"), temporary_stack(settings):
        pass
    assert running(settings)


def test_the_worker_runs_with_the_settings_of_the_call(settings: Settings) -> None:
    changed = settings.model_copy(update={"key_prefix": "other", "lease_seconds": 7.5})
    [worker] = up(changed, concurrency=1, base_url="http://127.0.0.1:9").workers
    environment = psutil.Process(worker.pid).environ()
    assert environment["SWARM_KEY_PREFIX"] == "other"
    assert environment["SWARM_LEASE_SECONDS"] == "7.5"
    assert environment["SWARM_BASE_URL"] == "http://127.0.0.1:9"
    assert environment["SWARM_REDIS_URL"] == local_url(settings)
    assert psutil.Process(worker.pid).cwd() == str(settings.state_folder())


def test_flower_is_started_on_a_free_port_and_stopped(settings: Settings) -> None:
    flower = up(settings, concurrency=1, flower_port=0).flower
    assert flower is not None
    with pytest.raises(urllib.error.HTTPError, match="403"):  # without the page's token
        urllib.request.urlopen(f"{flower.url}/healthcheck", timeout=20)
    assert up(settings, concurrency=1, flower_port=0).flower == flower
    process = psutil.Process(flower.pid)
    down(settings)
    assert wait_for_exit([process], deadline_seconds=0.1)


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


def test_a_temporary_stack_ends_with_its_block_also_by_an_error(settings: Settings) -> None:
    with temporary_stack(settings, concurrency=1) as stack:
        assert stack.redis.running and len(stack.workers) == 1
        family = _family(settings)
    assert wait_for_exit(family, deadline_seconds=0.1)
    with pytest.raises(KeyboardInterrupt), temporary_stack(settings, concurrency=1):
        family = _family(settings)
        raise KeyboardInterrupt
    assert wait_for_exit(family, deadline_seconds=0.1)
    assert load_records(settings) == []


def test_a_temporary_stack_uses_what_is_up_and_leaves_it(settings: Settings) -> None:
    before = up(settings, concurrency=1)
    with temporary_stack(settings) as stack:
        assert stack == before
    assert status(settings) == before


def test_a_temporary_stack_stops_only_the_worker_if_redis_ran_before(settings: Settings) -> None:
    ensure_redis(settings)
    with temporary_stack(settings, concurrency=1) as stack:
        pass
    left = status(settings)
    assert (left.workers, left.redis) == ([], stack.redis)


def test_up_makes_a_temporary_stack_permanent(settings: Settings) -> None:
    with temporary_stack(settings, concurrency=1) as stack:
        up(settings, concurrency=1)
    left = status(settings)
    assert [worker.pid for worker in left.workers] == [worker.pid for worker in stack.workers]
    assert not any(worker.temporary for worker in left.workers)


def test_the_last_of_several_users_stops_a_temporary_stack(settings: Settings) -> None:
    starter, worker = _user(settings)
    with temporary_stack(settings) as stack:
        assert [one.pid for one in stack.workers] == [worker]
        starter.communicate("\n", timeout=60)
        assert starter.returncode == 0
        assert running(settings)
    assert status(settings).workers == []
    assert find_redis(settings) is None


def test_the_stack_of_a_killed_user_is_stopped_by_the_next(settings: Settings) -> None:
    starter, worker = _user(settings)
    starter.send_signal(signal.SIGKILL)
    starter.communicate(timeout=60)
    assert running(settings)
    with temporary_stack(settings) as stack:
        assert [one.pid for one in stack.workers] == [worker]
    assert status(settings).workers == []
    assert find_redis(settings) is None


def test_workers_elsewhere_on_the_redis_that_is_set_are_found_and_used(settings: Settings, tmp_path: Path) -> None:
    elsewhere = Settings(state_dir=tmp_path / "client", redis_url=local_url(settings))
    up(settings, concurrency=1)
    assert has_worker(elsewhere)
    with temporary_stack(elsewhere) as stack:
        assert (stack.workers, stack.redis.origin, stack.redis.running) == ([], "external", True)
    with (
        pytest.raises(ConfigurationError, match="SWARM_REDIS_URL"),
        temporary_stack(elsewhere, base_url="http://127.0.0.1:9"),
    ):
        pass
    assert running(settings)


def test_workers_of_another_swarm_on_the_same_redis_do_not_count(settings: Settings, tmp_path: Path) -> None:
    up(settings, concurrency=1)
    other = Settings(state_dir=tmp_path / "client", redis_url=local_url(settings), key_prefix="other")
    assert not has_worker(other)


def test_without_workers_on_the_redis_that_is_set_a_temporary_stack_brings_its_own(
    settings: Settings, tmp_path: Path
) -> None:
    elsewhere = Settings(state_dir=tmp_path / "client", redis_url=ensure_redis(settings))
    assert not has_worker(elsewhere)
    with temporary_stack(elsewhere, concurrency=1) as stack:
        assert len(stack.workers) == 1
        assert has_worker(elsewhere)
    assert status(elsewhere).workers == []
    assert find_redis(settings) is not None
    stop_redis(settings)


def test_the_default_concurrency_suits_the_machine() -> None:
    assert 2 <= default_concurrency() <= 8
