"""The tools that look at files, while the agent's own shell swaps a folder for a link as fast as it can.

Tests of swarm/permissions/sandbox/reader.py.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.core.errors import ToolError
from tests.tool_world import World, make_world
from tests.waiting import wait_for

SECRET = "swordfish-4711"
SWAP = """
import ctypes, itertools, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for n in itertools.count():
    for one, other in ((b"d", b"link"), (b"f", b"file-link")):
        if libc.renameat2(-100, one, -100, other, 2) != 0:
            sys.exit(1)
    if n == 10:
        open("swapping", "w").close()
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A workspace whose `d` and `f` are links to outside in every other moment."""
    if sys.platform != "linux":
        pytest.skip("two names are swapped in one step on Linux alone")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text(f"{SECRET}\n")
    (outside / "secret-name").write_text("")
    world = make_world(tmp_path)
    world.file("d/key", "harmless\n")
    world.file("f", "harmless\n")
    (world.root / "link").symlink_to(outside)
    (world.root / "file-link").symlink_to(outside / "key")
    swapper = subprocess.Popen([sys.executable, "-c", SWAP], cwd=world.root)
    try:
        wait_for("names are swapped", (world.root / "swapping").exists)
        yield world
        assert swapper.poll() is None, "the swaps have ended before the calls"
    finally:
        swapper.kill()
        swapper.wait()


CALLS = {
    "Grep in a folder": ("Grep", {"pattern": ".", "path": "d", "output_mode": "content"}, 250),
    "Grep in all": ("Grep", {"pattern": ".", "output_mode": "content"}, 120),
    "Grep in a folder of a glob": ("Grep", {"pattern": ".", "glob": "d/*", "output_mode": "content"}, 120),
    "Grep in a file": ("Grep", {"pattern": ".", "path": "f", "output_mode": "content"}, 250),
    "Glob": ("Glob", {"pattern": "*", "path": "d"}, 120),
    "LS": ("LS", {"path": "d"}, 5_000),
    "Read": ("Read", {"file_path": "d/key"}, 2_000),
    "Read of a name that is wrong": ("Read", {"file_path": "d/secret-nam"}, 2_000),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_tool_looks_outside_while_its_folder_is_swapped_for_a_link(world: World, name: str) -> None:
    tool, given, times = CALLS[name]
    told, deadline = 0, time.monotonic() + 60
    for made in itertools.count(1):
        try:
            text = world.call(tool, **given).text
        except ToolError as error:
            text = str(error)
        assert SECRET not in text and "secret-name" not in text, text
        told += any(word in text for word in ("harmless", "key", "does not exist"))
        if made >= times and (told or time.monotonic() > deadline):
            break
    assert told, "it never saw what is there"


def test_a_search_that_is_started_by_the_runtime_cannot_read_outside(tmp_path: Path) -> None:
    from swarm.permissions.sandbox.reader import landlock_abi, start_reading

    if not landlock_abi():
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("inside")
    (tmp_path / "key").write_text(SECRET)
    cat = [shutil.which("cat") or "cat", "in/file", "key"]
    ran = start_reading(lambda: subprocess.run(cat, cwd=tmp_path, capture_output=True), [tmp_path / "in"])
    assert ran.stdout == b"inside"
    assert (tmp_path / "key").read_text() == SECRET, "the thread that asked is not held to it"
    assert os.listdir(tmp_path)
