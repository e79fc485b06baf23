"""The atomic steps as Redis Functions: how servers get them, and how a capability from outside brings its own.

Tests of swarm/store/keyspace.py, swarm/store/library.py.
"""

from __future__ import annotations

import importlib
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from swarm.core.errors import ConfigurationError
from swarm.local.server_binary import find_server
from swarm.store.library import KEPT_SECONDS, STEPS, Library
from swarm.store.store import Store
from tests.fleet import Fleet, wait_for
from tests.job_world import JobWorld, open_store

_VOTES_COMMON = """
-- P:job:ID:votes  hash  agent -> its vote
function votes.key(job) return job_key(job, 'votes') end
"""
_VOTES = """
-- Vote, and tell somebody.
step('vote', function(job, id, choice, to)
  redis.call('HSET', votes.key(job), id, choice)
  keep_with_job(job, votes.key(job))
  emit(job, 'vote', id, 'choice', choice)
  agents.deliver(to, id, (fields(id, 'name')) or id, 'message', 'I vote for ' .. choice)
  return { 'ok', publish, tostring(NOW) }
end)

step('count_votes', function(job) return redis.call('HLEN', votes.key(job)) end, { reads = true })

step('cheat', function(job) return redis.call('DEL', votes.key(job)) end, { reads = true })

step('fall', function(id)
  admission.put_on_queue(id)
  kill[#kill + 1] = id
  error('in the middle')
end)

step('left_over', function() return { publish, kill } end)
"""


@pytest.fixture
def votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The library of a capability that does not belong to the swarm."""
    package = f"votes_{secrets.token_hex(4)}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / package / "votes_common.lua").write_text(_VOTES_COMMON)
    (tmp_path / package / "votes.lua").write_text(_VOTES)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return Library(package)


def _names(client: redis.Redis) -> set[str]:
    return {library[1] for library in client.function_list(library="swarm_*")}


def test_a_capability_from_outside_brings_steps_that_see_the_same_data(unmanned: Fleet, votes: Library) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    world.start("ada")
    world.rest("ada")
    ada, job, store = world.ids["ada"], world.job_id, world.store
    said = store.keyspace.run("vote", job, world.root, "tea", ada, library=votes)
    assert said[0] == "ok"
    assert [called[0] for called in said[1]] == [ada], "it was idle, and the message has woken it"
    assert abs(float(said[2]) - store.now()) < 5
    assert [message.body for message in store.mail.all(ada)] == ["I vote for tea"]
    events = store.keyspace.client.xrange(store.keyspace.key("events", job))
    assert [fields["choice"] for _, fields in events if fields["kind"] == "vote"] == ["tea"]
    assert store.keyspace.run("count_votes", job, library=votes) == 1


def test_keys_of_a_capability_from_outside_live_and_expire_with_the_job(unmanned: Fleet, votes: Library) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    key, client = world.store.keyspace.key("job", world.job_id, "votes"), world.store.keyspace.client
    world.store.keyspace.run("vote", world.job_id, world.root, "tea", world.job_id, library=votes)
    assert client.ttl(key) == -1
    world.end("root")
    assert 0 < client.ttl(key) <= 60
    client.delete(key)
    world.store.keyspace.run("vote", world.job_id, world.root, "milk", world.job_id, library=votes)
    assert 0 < client.ttl(key) <= 60, "a key that comes late gets the time that is left"
    assert [found for found in client.scan_iter(f"*{world.job_id}*") if client.ttl(found) < 0] == []


def test_places_that_were_never_given_back_expire_with_the_job(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    client, job = world.store.keyspace.client, world.job_id
    client.sadd(world.store.keyspace.key("job", job, "running"), "agent-of-yore")
    client.zadd(world.store.keyspace.key("job", job, "line"), {"agent-of-yore": 1, "agent-of-old": 2})
    client.sadd(world.store.keyspace.key("job", job, "running"), *(f"agent-{i}" for i in range(1_000)))
    world.end("root")
    for part in ("running", "line"):
        assert 0 < client.ttl(world.store.keyspace.key("job", job, part)) <= 60


def test_a_step_that_only_reads_cannot_write(unmanned: Fleet, votes: Library) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    world.store.keyspace.run("vote", world.job_id, world.root, "tea", world.job_id, library=votes)
    with pytest.raises(redis.ResponseError, match="Write commands are not allowed"):
        world.store.keyspace.run("cheat", world.job_id, library=votes)
    assert world.store.keyspace.run("count_votes", world.job_id, library=votes) == 1


def test_a_call_that_fell_in_the_middle_leaves_nothing_to_the_next(unmanned: Fleet, votes: Library) -> None:
    world, other = JobWorld(open_store(unmanned), unmanned, team=False), open_store(unmanned)
    with pytest.raises(redis.ResponseError, match="in the middle"):
        world.store.keyspace.run("fall", world.root, library=votes)
    assert world.store.keyspace.run("left_over", library=votes) == [[], []]
    other.keyspace.run("vote", "job-x", "agent-x", "tea", "job-x", library=votes)
    assert other.keyspace.client.exists(other.keyspace.key("job", "job-x", "votes"))
    assert not other.keyspace.client.exists(world.store.keyspace.key("job", "job-x", "votes"))


def test_two_versions_work_side_by_side_on_one_server(unmanned: Fleet, votes: Library) -> None:
    store = open_store(unmanned)
    assert votes.name != STEPS.name
    for _ in range(2):
        world = JobWorld(store, unmanned, team=False)
        store.keyspace.run("vote", world.job_id, world.root, "tea", world.job_id, library=votes)
    assert {votes.name, STEPS.name} <= _names(store.keyspace.client)


def test_a_server_that_has_lost_the_library_is_given_it_again(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    JobWorld(store, unmanned, team=False)
    store.keyspace.client.function_flush("SYNC")
    world = JobWorld(store, unmanned, team=False)
    assert world.state("root") == "running"
    assert STEPS.name in _names(store.keyspace.client)


def test_libraries_that_nobody_has_loaded_for_long_are_removed(
    unmanned: Fleet, votes: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(unmanned)
    other = tmp_path / "other"
    other.mkdir()
    (other / "other.lua").write_text("step('other', function() return 1 end)\n")
    votes.load(store.keyspace.client, store.now() - KEPT_SECONDS - 60)
    STEPS.load(store.keyspace.client, store.now() - KEPT_SECONDS + 3_600)
    assert votes.name in _names(store.keyspace.client)
    late = Library("other")
    assert store.keyspace.run("other", library=late) == 1
    assert votes.name not in _names(store.keyspace.client)
    assert {late.name, STEPS.name} <= _names(store.keyspace.client)
    assert store.keyspace.run("left_over", library=votes) == [[], []], "who still uses it loads it again"


def test_lists_may_be_longer_than_what_fits_on_luas_stack(store: Store) -> None:
    many = [f"agent-{number}" for number in range(20_000)]
    assert store.leases.renew("worker", many, 60) == many
    assert store.agents.hints(many) == [None] * len(many)
    dead = [(agent_id, "worker") for agent_id in many]
    assert store.leases.rescue(max_deaths=5, outbox_age_seconds=10, batch=0, dead=dead).rescued == []


@pytest.fixture
def old_server(tmp_path: Path) -> Iterator[redis.Redis]:
    """A server that does not know functions, as before 7.0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "redis.conf"
    config.write_text(
        f'port {port}\nbind 127.0.0.1\ndir {tmp_path}\nrename-command FCALL ""\nrename-command FUNCTION ""\n'
    )
    process = subprocess.Popen([find_server().path, config], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, decode_responses=True)
    try:
        wait_for("it answers", lambda: _answers(client))
        yield client
    finally:
        process.kill()
        process.wait(10)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_a_server_without_functions_is_named_with_what_to_do(old_server: redis.Redis) -> None:
    port = old_server.connection_pool.connection_kwargs["port"]
    with pytest.raises(ConfigurationError, match=f":{port}/0 cannot .*Redis 7.0 or newer, or of Valkey: upgrade it"):
        Store(old_server).agents.cancel("agent-0", "test")
