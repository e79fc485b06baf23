"""`swarm board` and `swarm pad` as a person and a program see them; no worker is needed to look.

Tests of swarm/cli/team.py.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.job_world import JobWorld, open_store


@pytest.fixture
def world(unmanned: Fleet) -> JobWorld:
    world = JobWorld(open_store(unmanned), unmanned)
    world.start("ada", "writer")
    return world


def swarm(unmanned: Fleet, world: JobWorld, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prepared_swarm(), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "SWARM_REDIS_URL": unmanned.url, "SWARM_KEY_PREFIX": world.store.keyspace.prefix},
    )


def test_the_board_is_shown_with_who_has_what_and_what_waits(unmanned: Fleet, world: JobWorld) -> None:
    world.add("write it", role="writer", description="all of it")
    world.add("check \x1b[31mit", blocked_by=[1])
    world.take("ada", 1)
    ran = swarm(unmanned, world, "board", world.job_id)
    assert ran.returncode == 0, ran.stderr
    head, _, first, second = ran.stdout.splitlines()
    assert head == "0 of 2 tasks completed"
    assert first.split()[:4] == ["[>]", "1", "writer", "ada"] and first.split()[-2:] == ["write", "it"]
    assert "\x1b" not in second
    documents = json.loads(swarm(unmanned, world, "board", world.job_id, "--json").stdout)
    assert documents[0]["description"] == "all of it" and documents[0]["owner"] == world.ids["ada"]
    assert documents[1]["waits_for"] == [1]


def test_the_pad_is_listed_and_a_page_printed_as_it_is(unmanned: Fleet, world: JobWorld) -> None:
    world.pad.write(world.ids["ada"], world.cause(), "plan/api.md", "# Plan\nü")
    listed = swarm(unmanned, world, "pad", world.job_id)
    assert listed.stdout.splitlines()[1].split()[:3] == ["plan/api.md", "9", "1"]
    assert swarm(unmanned, world, "pad", world.job_id, "plan/api.md").stdout == "# Plan\nü\n"
    document = json.loads(swarm(unmanned, world, "pad", world.job_id, "plan/api.md", "--json").stdout)
    assert document["text"] == "# Plan\nü" and document["by_name"] == "ada"
    assert json.loads(swarm(unmanned, world, "pad", "--json").stdout)[0]["version"] == 1
    missing = swarm(unmanned, world, "pad", world.job_id, "nothing")
    assert missing.returncode != 0 and "there are: plan/api.md" in missing.stderr


def test_an_empty_board_and_pad_say_so(unmanned: Fleet, world: JobWorld) -> None:
    for command in ("board", "pad"):
        ran = swarm(unmanned, world, command, world.job_id)
        assert (ran.returncode, ran.stdout) == (0, "") and "is empty" in ran.stderr
        assert swarm(unmanned, world, command, world.job_id, "--json").stdout.strip() == "[]"
