"""A swarm that is restored from a copy of its Redis, on another server, while work was under way.

Tests of swarm/local/redis_server.py, swarm/store/agents.py.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Swarm
from swarm.local.redis_server import stop_redis
from swarm.store.values import Claim
from tests.fleet import Fleet
from tests.waiting import wait_for

ECHO = """
name: echo
rules:
  - {name: echo, when: {prompt: 'do (?P<what>n.*)$'}, reply: {text: 'did {what}'}}
"""


@pytest.mark.long
def test_what_is_restored_from_a_copy_goes_on_where_the_copy_was_made(tmp_path: Path) -> None:
    with closing(Fleet()) as lost, closing(Fleet()) as restored:
        server = restored.rehearse(ECHO)
        made = lost.swarm.map("do {it}", ["n1", "n2", "n3"], base_url=server.url, workspace=tmp_path, max_running=2)
        store = lost.swarm.store
        # One line is at work when the copy is made, one waits for a worker, one for its turn.
        assert isinstance(store.agents.claim(store.leases.called()[0], "a worker of then", 2.0), Claim)
        store.keyspace.client.bgrewriteaof()
        wait_for(
            "the file is written anew", lambda: not store.keyspace.client.info("persistence")["aof_rewrite_in_progress"]
        )
        copy = tmp_path / "copy"
        shutil.copytree(lost.settings.state_folder() / "redis" / "appendonlydir", copy)
        stop_redis(lost.settings)

        stop_redis(restored.settings)
        kept = restored.settings.state_folder() / "redis" / "appendonlydir"
        shutil.rmtree(kept)
        shutil.copytree(copy, kept)
        restored.restart_redis()
        with Swarm(restored.settings) as swarm:
            assert (swarm.find_map(made.id).view().running, swarm.find_map(made.id).view().waiting) == (2, 1)
            restored.start_worker(2)
            results = list(swarm.find_map(made.id).results())
        assert sorted((one.line, one.text) for one in results) == [(1, "did n1"), (2, "did n2"), (3, "did n3")]
