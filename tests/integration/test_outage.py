"""Redis away: whoever has something to lose waits, says so, and does nothing twice.

Tests of swarm/store/outage.py, swarm/store/leases.py, tasks/consumer_guard.py.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
import redis

from swarm import Job, JobView, Swarm
from swarm.client import aio
from swarm.core.errors import JobLost
from swarm.core.release import FORMAT
from swarm.local.redis_server import find_redis
from swarm.store.leases import longest_gap
from tests.fleet import Fleet, Worker
from tests.job_world import JobWorld, open_store
from tests.proxy import SilentProxy
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

OUTAGE_SECONDS = 12.0
"""Three leases of the tests."""


def _redis(fleet: Fleet) -> psutil.Process:
    process = find_redis(fleet.settings)
    assert process is not None
    return process


@contextlib.contextmanager
def _down(fleet: Fleet) -> Iterator[None]:
    process = _redis(fleet)
    process.kill()
    process.wait(5)
    yield
    time.sleep(OUTAGE_SECONDS)  # the outage itself, not a wait for something
    fleet.restart_redis()


@contextlib.contextmanager
def _hung(fleet: Fleet) -> Iterator[None]:
    process = _redis(fleet)
    process.suspend()
    try:
        yield
        time.sleep(OUTAGE_SECONDS)
    finally:
        process.resume()


@contextlib.contextmanager
def _busy(fleet: Fleet) -> Iterator[None]:
    client = fleet.swarm.store.keyspace.client
    client.config_set("busy-reply-threshold", 200)
    loop = "local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < tonumber(ARGV[1]) do end"
    thread = threading.Thread(target=_hold, args=(fleet, loop), daemon=True)
    thread.start()
    yield
    thread.join(60)


def _hold(fleet: Fleet, loop: str) -> None:
    with contextlib.suppress(Exception):
        fleet.swarm.store.keyspace.client.eval("redis.replicate_commands() " + loop, 0, OUTAGE_SECONDS)


@contextlib.contextmanager
def _full(fleet: Fleet) -> Iterator[None]:
    client = fleet.swarm.store.keyspace.client
    client.config_set("maxmemory", 1)
    yield
    time.sleep(OUTAGE_SECONDS)
    client.config_set("maxmemory", 0)


@contextlib.contextmanager
def _demoted(fleet: Fleet) -> Iterator[None]:
    client = fleet.swarm.store.keyspace.client
    client.replicaof("127.0.0.1", 1)
    yield
    time.sleep(OUTAGE_SECONDS)
    client.replicaof("NO", "ONE")


@contextlib.contextmanager
def _locked(fleet: Fleet) -> Iterator[None]:
    """Its password is another one for a while, and every connection is made anew."""
    with _rotated(fleet):
        yield
        time.sleep(OUTAGE_SECONDS)


@contextlib.contextmanager
def _rotated(fleet: Fleet) -> Iterator[None]:
    with redis.Redis.from_url(fleet.url, single_connection_client=True) as client:
        client.config_set("requirepass", "rotated")
        for kind in ("normal", "pubsub"):
            client.client_kill_filter(_type=kind, skipme=True)
        try:
            yield
        finally:
            client.config_set("requirepass", "")


@contextlib.contextmanager
def _unable_to_save(fleet: Fleet) -> Iterator[None]:
    """It cannot write its snapshot, so it takes no writes: MISCONF."""
    client, file = fleet.swarm.store.keyspace.client, fleet.folder / "s" / "redis" / "dump.rdb"
    file.mkdir()
    client.config_set("save", "3600 1")
    client.bgsave()
    wait_for("it has failed", lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        client.set("x", 1)
    yield
    time.sleep(OUTAGE_SECONDS)
    file.rmdir()
    client.config_set("save", "")


@contextlib.contextmanager
def _loading(fleet: Fleet) -> Iterator[None]:
    """It was started again and reads its file, for as long as the other outages."""
    client, process = fleet.swarm.store.keyspace.client, _redis(fleet)
    pipeline = client.pipeline(transaction=False)
    for number in range(20_000):
        pipeline.set(f"filler:{number}", 1)
    pipeline.execute()
    binary, config = process.exe(), fleet.folder / "s" / "redis" / "redis.conf"
    process.kill()
    process.wait(5)
    each = str(int(OUTAGE_SECONDS / 20_000 * 1e6))
    # The server is told by its name from the other programs that the file is.
    command = ["redis-server", str(config), "--key-load-delay", each]
    server = subprocess.Popen(command, executable=binary, stdout=subprocess.DEVNULL)
    try:
        no_retry = redis.Redis.from_url(fleet.url, retry=None)
        wait_for("it loads", lambda: _is_loading(no_retry))
        yield
        fleet.restart_redis()
        assert server.poll() is None, "it is that one still"
    except BaseException:
        server.kill()
        raise


def _is_loading(client: redis.Redis) -> bool:
    try:
        client.get("x")
    except redis.BusyLoadingError:
        return True
    except redis.RedisError:
        pass
    return False


def _deaths(fleet: Fleet, job: Job) -> int:
    return sum(
        int(fleet.swarm.store.keyspace.client.hget(f"swarm:agent:{agent.id}", "deaths") or 0) for agent in job.agents()
    )


def _paid_calls(fleet: Fleet) -> tuple[RehearsalServer, list[Job]]:
    """One job that waits for its model and one in a command whose output is too long for the conversation."""
    command = "echo ran >> log; sleep 4; seq 1 20000"
    server = fleet.rehearse(
        f"""
name: paid
rules:
  - {{when: {{turn: 0, prompt: tool}}, reply: {{tools: [{{name: Bash, input: {{command: "{command}"}}}}]}}}}
  - {{when: {{turn: 0}}, reply: {{text: "ANSWER", latency_seconds: 4}}}}
  - reply: {{text: "RESULT: {{last_result}}"}}
"""
    )
    jobs = [fleet.submit("model", server), fleet.submit("tool", server)]
    wait_for(
        "both calls are under way", lambda: server.stats()["in_flight"] == 1 and (fleet.workspace / "log").exists()
    )
    return server, jobs


@pytest.mark.parametrize(
    "away",
    [
        *(_down, _hung, _full, _locked),
        *(pytest.param(away, marks=pytest.mark.long) for away in (_busy, _demoted, _unable_to_save, _loading)),
    ],
)
def test_what_was_paid_for_and_what_a_command_said_outlast_an_outage(fleet: Fleet, away) -> None:  # type: ignore[no-untyped-def]
    worker = fleet.start_worker(2)
    server, jobs = _paid_calls(fleet)
    with away(fleet):
        pass
    model, tool = (job.wait(60) for job in jobs)
    assert (model.state, model.text, tool.state) == ("completed", "ANSWER", "completed")
    assert tool.text.startswith("RESULT: 1\n2\n"), "the output was kept, and the call did not fail"
    assert server.stats()["requests"] == 3, "no call was made twice"
    assert (fleet.workspace / "log").read_text() == "ran\n"
    assert [_deaths(fleet, job) for job in jobs] == [0, 0]
    assert worker.process.poll() is None
    assert fleet.submit("model", server).wait(30).state == "completed", "the worker hears of new work"


def test_the_first_sweep_after_an_outage_takes_nothing_over_even_if_there_was_none_before_it(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    store, now = world.store, world.store.now()
    store.keyspace.client.zadd(store.keyspace.key("leases"), {world.root: now - 10})
    assert store.leases.begin_sweep("worker", 0.2, 60.0).is_mine
    assert store.leases.rescue(max_deaths=5, outbox_age_seconds=60, begun_within=60).rescued == []
    assert store.leases.renew("worker-root", [world.root], 60) == []
    assert (
        world.state("root") == "running"
        and store.keyspace.client.hget(store.keyspace.key("agent", world.root), "deaths") is None
    )


def test_a_sweep_that_an_outage_comes_into_takes_nothing_over(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    store, pulse = world.store, world.store.keyspace.key("pulse")
    assert store.leases.begin_sweep("worker", 0.2, 15.0).is_mine
    # Redis is away for 20 s now, in which nobody renews a lease; the sweep's second step waits at its door.
    store.keyspace.client.set(pulse, store.now() - 20)
    store.keyspace.client.zadd(store.keyspace.key("leases"), {world.root: store.now() - 5})
    given = {"max_deaths": 5, "outbox_age_seconds": 60, "begun_within": longest_gap(0.2, 15.0)}
    assert store.leases.rescue(**given).rescued == []
    store.keyspace.client.delete(store.keyspace.key("rescue-lock", str(FORMAT)))
    assert store.leases.begin_sweep("worker", 0.2, 15.0).is_mine
    assert store.leases.rescue(**given).rescued == [], "whoever lived through it has time to say so"
    store.keyspace.client.zadd(store.keyspace.key("leases"), {world.root: store.now() - 5})
    assert list(store.leases.rescue(**given).rescued) == [world.root], "who did not is dead"


def test_a_sweep_is_due_again_when_the_next_lease_runs_out(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    store = world.store
    store.keyspace.client.set(store.keyspace.key("pulse"), store.now())
    store.keyspace.client.zadd(store.keyspace.key("leases"), {world.root: store.now() + 0.4})
    first, second = store.leases.begin_sweep("one", 60.0, 60.0), store.leases.begin_sweep("two", 60.0, 60.0)
    assert first.is_mine and not second.is_mine, "one looks"
    assert first.next_end is not None and second.next_end is not None, "and all know when to come back"
    assert 0 < second.next_end <= first.next_end <= 0.4
    wait_for("the lock ends with the lease", lambda: store.leases.begin_sweep("two", 60.0, 60.0).is_mine)
    assert list(store.leases.rescue(max_deaths=5, outbox_age_seconds=60, begun_within=60).rescued) == [world.root]


def test_a_clock_that_is_set_back_keeps_no_dead_workers_agent_for_an_hour(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    world = JobWorld(store, unmanned, team=False)
    client, key = store.keyspace.client, store.keyspace.key
    assert store.leases.begin_sweep("one", 2.0, 0.2).is_mine
    # As both clocks of the server are an hour later than its times from now on.
    client.pexpire(key("rescue-lock", str(FORMAT)), 3_600_000)
    client.set(key("pulse"), store.now() + 3_600)
    client.zincrby(key("leases"), 3_600, world.root)
    assert store.leases.begin_sweep("two", 2.0, 0.2).is_mine
    assert client.zscore(key("leases"), world.root) < store.now() + 15
    client.zincrby(key("leases"), -15, world.root)
    assert list(store.leases.rescue(max_deaths=5, outbox_age_seconds=60).rescued) == [world.root]


def test_a_worker_that_is_started_while_redis_is_down_works_once_it_is_back(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=1 fanout=2 steps=1", fleet.rehearse())
    process = _redis(fleet)
    process.kill()
    process.wait(5)
    worker = fleet.begin_worker(2)
    wait_for("it has noticed", lambda: "renew.failed" in worker.text() or worker.process.poll() is not None)
    fleet.restart_redis()
    worker.wait_ready()
    assert job.wait(60).text == "DONE 3"


def test_a_worker_that_is_started_while_redis_takes_no_writes_works_once_it_does(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=1 fanout=2 steps=1", fleet.rehearse())
    client = fleet.swarm.store.keyspace.client
    client.config_set("min-replicas-to-write", 1)
    worker = fleet.begin_worker(2)
    wait_for("it has noticed", lambda: "renew.failed" in worker.text() or worker.process.poll() is not None)
    client.config_set("min-replicas-to-write", 0)
    worker.wait_ready()
    assert job.wait(60).text == "DONE 3"


def test_whoever_waits_for_a_job_is_told_every_ten_seconds_that_redis_is_away(fleet: Fleet) -> None:
    fleet.start_worker(1)
    job = fleet.submit("x", fleet.rehearse("name: one\nrules:\n  - reply: {text: ANSWER, latency_seconds: 3}\n"))
    told: list[str] = []
    fleet.swarm.tell = told.append
    watched = fleet.swarm.job(job.id)
    views = []
    waiting = threading.Thread(target=lambda: views.append(watched.wait()))
    waiting.start()
    with _hung(fleet):
        wait_for("it is said", lambda: told, 10)
        wait_for("it is said again", lambda: len(told) > 1, 10)
    waiting.join(60)
    assert views[0].text == "ANSWER"
    assert all(job.id in what and "Redis" in what for what in told)


@pytest.mark.parametrize("away", [_demoted, _locked])
def test_a_client_waits_through_a_change_of_roles_and_of_the_password(fleet: Fleet, away) -> None:  # type: ignore[no-untyped-def]
    fleet.start_worker(1)
    job = fleet.submit("x", fleet.rehearse("name: one\nrules:\n  - reply: {text: ANSWER, latency_seconds: 3}\n"))
    with concurrent.futures.ThreadPoolExecutor() as clients:
        waits = [
            clients.submit(fleet.swarm.job(job.id).wait),
            clients.submit(lambda: list(fleet.swarm.outlasting(job.id).job(job.id).follow())),
            clients.submit(lambda: asyncio.run(_wait_async(fleet, job.id))),
        ]
        wait_for("the agent is at work", lambda: job.view().state == "running")
        # A password counts as good once Redis has answered: each client blocks then, and so does the worker.
        info = fleet.swarm.store.keyspace.client.info
        wait_for("all wait", lambda: info("clients")["blocked_clients"] >= len(waits) + 1)
        with away(fleet):
            pass
        view, events, also = (wait.result(60) for wait in waits)
    assert (view.text, events[-1].kind, also.text) == ("ANSWER", "job_ended", "ANSWER")


def test_a_wait_that_begins_while_the_password_is_another_one_lasts_for_a_client_that_redis_has_answered(
    fleet: Fleet,
) -> None:
    told = threading.Event()
    fleet.swarm.tell = lambda what: told.set()
    job = fleet.submit("x", fleet.rehearse())
    with concurrent.futures.ThreadPoolExecutor() as clients:
        with _rotated(fleet):
            wait = clients.submit(job.wait, 60)
            assert told.wait(30), "a refused password is told as an outage"
        job.cancel()
        assert wait.result(60).state == "cancelled"


async def _wait_async(fleet: Fleet, job_id: str) -> JobView:
    async with aio.Swarm(fleet.settings) as swarm:
        return await (await swarm.job(job_id)).wait()


def test_a_password_that_was_never_right_is_no_outage(fleet: Fleet) -> None:
    job = fleet.submit("x", fleet.rehearse())
    wrong = fleet.settings.model_copy(update={"redis_url": fleet.url.replace("://", "://nobody:wrong@")})
    with pytest.raises(redis.AuthenticationError):
        Swarm(wrong).job(job.id).wait()


def test_a_job_that_redis_has_lost_is_said_to_be_lost(fleet: Fleet) -> None:
    job = fleet.submit("x", fleet.rehearse())
    fleet.swarm.store.keyspace.client.config_set("appendonly", "no")
    fleet.swarm.store.keyspace.client.config_set("save", "")
    redis = _redis(fleet)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            job.wait()
        except JobLost as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    redis.send_signal(signal.SIGKILL)
    redis.wait(5)
    for file in (fleet.folder / "s" / "redis").rglob("*"):
        if file.is_file() and ("appendonly" in file.name or file.suffix == ".rdb"):
            file.unlink()
    fleet.restart_redis()
    waiting.join(60)
    assert "came back without it" in str(caught[0])


@contextlib.contextmanager
def _proxy(fleet: Fleet) -> Iterator[SilentProxy]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fleet.swarm.store.keyspace.client.config_set("port", port)
    with contextlib.closing(SilentProxy(port)) as proxy:
        yield proxy


def test_a_worker_whose_connection_has_ended_in_silence_hears_of_new_work(fleet: Fleet) -> None:
    # The outbox alone would have sent for it again after five seconds, and it would not have been heard then.
    worker = _hear_after_silences(fleet, "prefork", within_seconds=6)
    assert "connection.silent" in worker.text()


def test_a_worker_with_a_pool_of_threads_hears_of_it_too(fleet: Fleet) -> None:
    # Its consumer asks seldom, so what it finds out by is a command without an answer.
    _hear_after_silences(fleet, "threads", within_seconds=20)


def _hear_after_silences(fleet: Fleet, pool: str, *, within_seconds: float) -> Worker:
    with _proxy(fleet) as proxy:
        worker = fleet.start_worker(1, pool=pool, SWARM_REDIS_URL=f"redis://127.0.0.1:{proxy.port}/0")
        server = fleet.rehearse("name: one\nrules:\n  - reply: {text: ANSWER}\n")
        assert fleet.submit("x", server).wait(30).text == "ANSWER"
        for _ in range(3):
            proxy.silence()
            job = fleet.submit("x", server)
            assert job.wait(within_seconds).text == "ANSWER"
        assert worker.process.poll() is None
    return worker


def test_a_worker_that_was_stopped_does_not_take_its_connection_for_silent(fleet: Fleet) -> None:
    worker = fleet.start_worker(1)
    server = fleet.rehearse("name: one\nrules:\n  - reply: {text: ANSWER}\n")
    for _ in range(3):
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        worker.process.send_signal(signal.SIGCONT)
        assert fleet.submit("x", server).wait(30).text == "ANSWER"
    assert "connection.silent" not in worker.text()


def test_an_agent_whose_connection_ends_in_silence_goes_on(fleet: Fleet) -> None:
    with _proxy(fleet) as proxy:
        fleet.start_worker(1, SWARM_REDIS_URL=f"redis://127.0.0.1:{proxy.port}/0", SWARM_LEASE_SECONDS="20")
        server = fleet.rehearse("name: one\nrules:\n  - reply: {text: ANSWER, latency_seconds: 3}\n")
        job = fleet.submit("x", server)
        wait_for("the call is under way", lambda: server.stats()["in_flight"] == 1)
        proxy.silence()
        assert job.wait(40).text == "ANSWER"
        assert (server.stats()["requests"], _deaths(fleet, job)) == (1, 0)
