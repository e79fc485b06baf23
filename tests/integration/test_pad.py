"""The scratchpad at the level of its atomic steps, against a real Redis; no worker runs.

Tests of swarm/capabilities/team/scratchpad.py.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from swarm.capabilities.team.scratchpad import MAX_PAGE_BYTES, MAX_PAGES
from swarm.core.errors import PadRefused
from swarm.core.settings import PAD_MIB
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import JobWorld, open_store
from tests.tool_world import make_world


@pytest.fixture
def world(unmanned: Fleet, store: Store) -> JobWorld:
    return JobWorld(store, unmanned, team=False)


def write(world: JobWorld, page: str, text: str, by: str = "root", **given: int) -> int:
    return world.pad.write(world.ids[by], world.cause(), page, text, **given).version


def test_a_page_is_read_as_it_was_written_and_its_record_tells_who_wrote_it(world: JobWorld) -> None:
    world.start("ada", teammate=False)
    write(world, "plan/api.md", "erste Zeile\n\x00 <ü>\n", by="ada")
    view, text = world.pad.read("plan/api.md")
    assert text == "erste Zeile\n\x00 <ü>\n"
    assert (view.size, view.by, view.by_name) == (len(text.encode()), world.ids["ada"], "ada")
    assert [page.name for page in world.pad.pages()] == ["plan/api.md"]
    write(world, "plan/api.md", "")
    assert world.pad.read("plan/api.md")[1] == ""


def test_a_version_that_was_overtaken_writes_nothing(world: JobWorld) -> None:
    first = write(world, "a", "one", if_version=0)
    second = write(world, "a", "two", if_version=first)
    assert second > first
    with pytest.raises(PadRefused, match=f"has version {second}, not {first}; nothing was changed"):
        write(world, "a", "three", if_version=first)
    with pytest.raises(PadRefused, match="exists already"):
        write(world, "a", "three", if_version=0)
    with pytest.raises(PadRefused, match="there is no page 'b'"):
        write(world, "b", "x", if_version=1)
    assert world.pad.read("a")[1] == "two"


def test_a_page_that_was_deleted_and_made_anew_has_a_version_that_was_never_there(world: JobWorld) -> None:
    old = write(world, "a", "one")
    world.pad.delete(world.root, world.cause(), "a", if_version=old)
    with pytest.raises(PadRefused, match="there is no page 'a', nor any other"):
        world.pad.read("a")
    with pytest.raises(PadRefused, match="there is no page 'a'"):
        world.pad.delete(world.root, world.cause(), "a")
    assert write(world, "a", "two") > old
    with pytest.raises(PadRefused):
        write(world, "a", "three", if_version=old)


def test_the_same_cause_again_writes_and_appends_once(world: JobWorld) -> None:
    first = world.pad.write(world.root, "w", "a", "one", if_version=0)
    write(world, "a", "two")
    assert world.pad.write(world.root, "w", "a", "one", if_version=0) == first
    assert world.pad.read("a")[1] == "two"
    for _ in range(3):
        world.pad.append(world.root, "x", "a", "+")
    assert world.pad.read("a")[1] == "two+"
    world.pad.delete(world.root, "d", "a")
    write(world, "a", "three")
    world.pad.delete(world.root, "d", "a")
    assert world.pad.read("a")[1] == "three"


def test_of_many_that_append_at_once_nobodys_text_is_lost_or_torn(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)

    def work(number: int) -> None:
        for n in range(20):
            world.pad.append(world.root, f"{number}-{n}", "log", f"<{number}:{n}>\n")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    lines = world.pad.read("log")[1].splitlines()
    assert sorted(lines) == sorted(f"<{number}:{n}>" for number in range(10) for n in range(20))
    for number in range(10):
        own = [line for line in lines if line.startswith(f"<{number}:")]
        assert own == [f"<{number}:{n}>" for n in range(20)]


def test_pages_pad_and_their_number_have_limits_that_name_themselves(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    full = "x" * MAX_PAGE_BYTES
    with pytest.raises(PadRefused, match="would have 1,048,577 bytes, more than 1,048,576"):
        write(world, "big", full + "x")
    for n in range((PAD_MIB << 20) // MAX_PAGE_BYTES):
        write(world, f"full/{n}", full)
    with pytest.raises(PadRefused, match="1,048,577 bytes"):
        world.pad.append(world.root, world.cause(), "full/0", "x")
    with pytest.raises(PadRefused, match="the scratchpad would have 16,777,217 bytes"):
        write(world, "more", "x")
    write(world, "full/0", "short")
    write(world, "more", "x")
    assert sum(page.size for page in world.pad.pages()) == int(
        world.store.keyspace.client.hget(world.store.keyspace.key("job", world.job_id), "pad_bytes")
    )


def test_a_thousand_pages_are_enough(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    for n in range(MAX_PAGES):
        write(world, f"p{n}", "")
    with pytest.raises(PadRefused, match="has 1,000 pages"):
        write(world, "one-more", "")
    write(world, "p0", "still possible")
    world.pad.delete(world.root, world.cause(), "p1")
    write(world, "one-more", "")


def test_an_agent_of_another_job_reads_and_writes_nothing_here(unmanned: Fleet, world: JobWorld) -> None:
    write(world, "a", "secret")
    stranger = JobWorld(world.store, unmanned, team=False)
    with pytest.raises(PadRefused, match="only a live agent of the job"):
        world.pad.write(stranger.root, world.cause(), "a", "x")
    with pytest.raises(PadRefused, match="there is no page"):
        stranger.pad.read("a")


def test_the_tools_say_what_became_of_it(world: JobWorld, tmp_path: Path) -> None:
    tools = make_world(tmp_path)
    tools.ctx.spec, tools.ctx.store = world.spec, world.store

    def call(name: str, /, **given: object) -> str:
        tools.ctx.tool_use_id = world.cause()
        return tools.call(f"Scratchpad{name}", **given).text

    assert call("List") == "The scratchpad is empty."
    assert call("Write", page="plan/a.md", content="") == "Written: plan/a.md has version 1 and 0 bytes now."
    assert call("Read", page="plan/a.md") == "[plan/a.md, version 1, 0 bytes, last changed by root; it is empty]"
    lines = "".join(f"line {n}\n" for n in range(1, 11))
    assert call("Append", page="plan/a.md", content=lines) == "Added: plan/a.md has version 2 and 71 bytes now."
    assert call("Read", page="plan/a.md", offset=3, limit=2).splitlines() == [
        "[plan/a.md, version 2, 71 bytes, last changed by root]",
        *("     3\tline 3", "     4\tline 4", "[… more follows; continue with offset=5]"),
    ]
    assert "the last line is 10" in call("Read", page="plan/a.md", offset=11)
    assert call("List", prefix="plan/").startswith("- plan/a.md: 71 bytes, version 2, by root, ")
    assert "begins with 'x'" in call("List", prefix="x")
    with pytest.raises(PadRefused, match="cannot be a page's name"):
        call("Read", page="../etc/passwd")
    assert call("Write", page="plan/a.md", delete=True, if_version=2) == "Deleted: plan/a.md."
