"""Glob, Grep and LS on real folders, with the real ripgrep.

Tests of swarm/tools/ripgrep.py, swarm/tools/search.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swarm.core.errors import Interrupted, ToolError
from swarm.tools.ripgrep import find_ripgrep, run_ripgrep
from tests.tool_world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = make_world(tmp_path)
    world.file(".gitignore", "build/\n*.log\n")
    world.file("src/app.py", "import os\nneedle = 1\nend = 2\n")
    world.file("src/deep/other.py", "x = 'Needle'\n")
    world.file("src/page.ts", "needle()\n")
    world.file("build/made.py", "needle\n")
    world.file("debug.log", "needle\n")
    world.file(".git/config.py", "needle\n")
    world.file(".hidden/h.py", "needle\n")
    return world


def test_ripgrep_is_found_and_can_be_run() -> None:
    assert os.access(find_ripgrep(), os.X_OK)


# -- Glob -------------------------------------------------------------------------------------------------


def test_glob_lists_the_newest_first_and_leaves_out_what_git_ignores(world: World) -> None:
    for age, name in enumerate(["src/deep/other.py", ".hidden/h.py", "src/app.py"]):
        os.utime(world.root / name, (2_000_000_000 - age, 2_000_000_000 - age))
    assert world.call("Glob", pattern="*.py").text.split("\n") == ["src/deep/other.py", ".hidden/h.py", "src/app.py"]


@pytest.mark.parametrize("pattern", ["**/*", "**", "*.log", "build/**"])
def test_no_pattern_brings_back_what_git_ignores(world: World, pattern: str) -> None:
    text = world.call("Glob", pattern=pattern).text
    assert "made.py" not in text and "\ndebug.log" not in f"\n{text}" and ".git/" not in text


def test_glob_with_a_slash_starts_at_the_path(world: World) -> None:
    assert set(world.call("Glob", pattern="src/*.{py,ts}").text.split("\n")) == {"src/app.py", "src/page.ts"}
    assert world.call("Glob", pattern="deep/*.py", path="src").text == "src/deep/other.py"
    assert world.call("Glob", pattern=f"{world.root}/src/deep/*.py").text == "src/deep/other.py"


def test_glob_without_a_match_says_so(world: World) -> None:
    assert world.call("Glob", pattern="*.rs").text == "No file matches *.rs."


def test_glob_caps_its_list_and_says_how_many_there_are(world: World) -> None:
    for number in range(1_100):
        world.file(f"many/{number}.dat", "")
    lines = world.call("Glob", pattern="*.dat").text.split("\n")
    assert len(lines) == 1_001 and "1,000 newest of 1,100" in lines[-1]


@pytest.mark.parametrize("given", [{"path": "../"}, {"path": "/etc"}, {"pattern": "/etc/*"}, {"pattern": "../*"}])
def test_glob_stays_in_the_workspace(world: World, given: dict[str, str]) -> None:
    with pytest.raises(ToolError):
        world.call("Glob", **{"pattern": "*", **given})


def test_no_search_follows_a_link_out_of_the_workspace(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("needle secret")
    (world.root / "out").symlink_to(outside)
    (world.root / "file.py").symlink_to(outside / "secret.py")
    assert "secret" not in world.call("Glob", pattern="**/*").text
    assert "secret" not in world.call("Grep", pattern="needle", output_mode="content").text
    for tool, given in (("Grep", {"pattern": "x", "path": "out"}), ("LS", {"path": "out"})):
        with pytest.raises(ToolError, match="outside the workspace"):
            world.call(tool, **given)


# -- Grep -------------------------------------------------------------------------------------------------


def test_grep_names_files_by_default(world: World) -> None:
    assert world.call("Grep", pattern="needle").text.split("\n") == [".hidden/h.py", "src/app.py", "src/page.ts"]


def test_grep_shows_lines_with_numbers_and_context(world: World) -> None:
    given = {"pattern": "needle", "path": "src/app.py", "output_mode": "content"}
    assert world.call("Grep", **given).text == "src/app.py:2:needle = 1"
    assert world.call("Grep", **given, **{"-n": False}).text == "src/app.py:needle = 1"
    around = world.call("Grep", **given, **{"-B": 1, "-A": 1}).text
    assert around == "src/app.py-1-import os\nsrc/app.py:2:needle = 1\nsrc/app.py-3-end = 2"


def test_grep_counts_and_ignores_case(world: World) -> None:
    text = world.call("Grep", pattern="NEEDLE", output_mode="count", path="src", **{"-i": True}).text
    assert text.split("\n") == ["src/app.py:1", "src/deep/other.py:1", "src/page.ts:1"]


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.ts", ["src/page.ts"]),
        ("**/*.{ts,py}", [".hidden/h.py", "src/app.py", "src/page.ts"]),
        ("src/**/*.py", ["src/app.py"]),
        ("src/*.ts", ["src/page.ts"]),
        ("!*.py", ["src/page.ts"]),
    ],
)
def test_grep_narrowed_by_a_glob_still_leaves_out_what_git_ignores(world: World, glob: str, files: list[str]) -> None:
    assert world.call("Grep", pattern="needle", glob=glob).text.split("\n") == files


def test_grep_for_an_ignored_kind_of_file_finds_none(world: World) -> None:
    assert world.call("Grep", pattern="needle", glob="*.log").text.startswith("Nothing matches")


def test_grep_narrows_by_type(world: World) -> None:
    assert world.call("Grep", pattern="needle", type="ts").text == "src/page.ts"
    with pytest.raises(ToolError, match="unrecognized file type"):
        world.call("Grep", pattern="needle", type="nonsense")


def test_grep_over_lines_needs_multiline(world: World) -> None:
    assert world.call("Grep", pattern="os.needle", multiline=True).text == "src/app.py"
    assert world.call("Grep", pattern="os.needle").text.startswith("Nothing matches")


def test_grep_stops_at_the_head_limit_and_says_so(world: World) -> None:
    world.file("many.txt", "hit\n" * 1_000)
    lines = world.call("Grep", pattern="hit", output_mode="content", head_limit=3).text.split("\n")
    assert lines[:3] == ["many.txt:1:hit", "many.txt:2:hit", "many.txt:3:hit"]
    assert len(lines) == 4 and "stopped after 3 lines" in lines[3]
    assert "stopped" not in world.call("Grep", pattern="hit", output_mode="content", head_limit=1_000).text


def test_a_broken_pattern_is_explained(world: World) -> None:
    with pytest.raises(ToolError, match="unclosed group"):
        world.call("Grep", pattern="(open")


@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=touch pwned"])
def test_a_pattern_is_never_taken_for_an_option(world: World, pattern: str) -> None:
    world.file("a.txt", f"{pattern}\n")
    assert world.call("Grep", pattern=pattern.replace(".", "\\.")).text == "a.txt"
    assert not (world.root / "pwned").exists()


def test_grep_searches_kept_output(world: World) -> None:
    world.outputs.keep("key", "one\ntwo needle\n")
    assert world.call("Grep", pattern="needle", path="output:key", output_mode="content").text == "2:two needle"


def test_a_search_stops_when_the_agent_must_stop(world: World, tmp_path: Path) -> None:
    os.mkfifo(world.root / "never")

    def stop() -> None:
        raise Interrupted

    world.ctx.check = stop
    # A pipe that is open for writing and never written to keeps ripgrep reading.
    keep_open = os.open(world.root / "never", os.O_RDWR)
    try:
        with pytest.raises(Interrupted):
            run_ripgrep(world.ctx, ["--regexp=x", "never"])
    finally:
        os.close(keep_open)


# -- LS ---------------------------------------------------------------------------------------------------


def test_ls_lists_folders_first_with_sizes_and_links(world: World) -> None:
    (world.root / "alink").symlink_to("src")
    text = world.call("LS", ignore=[".git*", ".hidden"]).text
    assert text.split("\n") == ["build/", "src/", "alink -> src", "debug.log\t7 bytes"]


def test_ls_of_an_empty_folder_and_of_a_file(world: World) -> None:
    (world.root / "empty").mkdir()
    assert world.call("LS", path="empty").text == "[empty is empty]"
    with pytest.raises(ToolError, match="is not a folder"):
        world.call("LS", path="debug.log")
