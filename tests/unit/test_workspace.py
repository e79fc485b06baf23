"""The workspace: which paths stay inside it, and how its files are opened and replaced.

Tests of swarm/workspace/files.py, swarm/workspace/paths.py, swarm/workspace/text.py, swarm/workspace/origin.py.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swarm.client.preparation import find_workspace
from swarm.core.errors import ConfigurationError, ToolError
from swarm.workspace import (
    current_mtimes,
    decode_text,
    open_file,
    refuse_git_internals,
    replace_file,
    resolve_path,
    shown,
    sniff_encoding,
)
from swarm.workspace.git_command import read_failure
from swarm.workspace.origin import find_git


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    return folder


def test_a_relative_and_an_absolute_path_inside_the_workspace_are_the_same_file(workspace: Path) -> None:
    assert resolve_path(workspace, "a/b.txt") == workspace / "a" / "b.txt"
    assert resolve_path(workspace, str(workspace / "a" / "b.txt")) == workspace / "a" / "b.txt"
    assert shown(workspace, workspace / "a" / "b.txt") == "a/b.txt"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "..", "a/./../.."])
def test_a_path_that_leaves_the_workspace_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError, match="outside the workspace"):
        resolve_path(workspace, path)


def test_a_folder_whose_name_begins_like_the_workspace_is_outside(workspace: Path) -> None:
    (workspace.parent / "work-other").mkdir()
    with pytest.raises(ToolError, match="outside the workspace"):
        resolve_path(workspace, "../work-other/file")


def test_a_link_to_the_outside_is_refused_and_the_refusal_says_where_it_leads(workspace: Path) -> None:
    (workspace / "link").symlink_to("/etc")
    with pytest.raises(ToolError, match=r"outside the workspace \(it leads to /etc/passwd\)"):
        resolve_path(workspace, "link/passwd")


def test_a_chain_of_links_to_the_outside_is_refused(workspace: Path) -> None:
    (workspace / "one").symlink_to("two")
    (workspace / "two").symlink_to(workspace.parent)
    with pytest.raises(ToolError, match="outside the workspace"):
        resolve_path(workspace, "one/secret")


def test_a_link_inside_the_workspace_is_followed(workspace: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    assert resolve_path(workspace, "link/file") == workspace / "real" / "file"


def test_a_workspace_that_is_named_through_a_link_still_takes_absolute_paths(workspace: Path) -> None:
    alias = workspace.parent / "alias"
    alias.symlink_to(workspace)
    assert resolve_path(workspace, str(alias / "file")) == workspace / "file"


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_a_path_that_is_none_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError):
        resolve_path(workspace, path)


@given(parts=st.lists(st.sampled_from(["..", ".", "a", "b", "", "~", "/"]), max_size=8))
def test_whatever_is_resolved_is_inside(parts: list[str]) -> None:
    workspace = Path("/nowhere/work")
    try:
        resolved = resolve_path(workspace, "/".join(parts))
    except ToolError:
        return
    assert resolved.is_relative_to(workspace) and ".." not in resolved.parts


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/pre-commit", ".GIT/HEAD", ".git"])
def test_git_internals_are_recognised(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError, match="git commands"):
        refuse_git_internals(workspace, workspace / path)


def test_gitignore_is_no_git_internal(workspace: Path) -> None:
    for name in (".gitignore", ".github/x", "sub/.gitattributes"):
        refuse_git_internals(workspace, workspace / name)
    with pytest.raises(ToolError):
        refuse_git_internals(workspace, workspace / ".git")


def test_a_folder_that_became_a_link_after_it_was_resolved_is_not_followed(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (workspace / "folder").mkdir()
    (workspace / "folder" / "file").write_text("mine")
    resolved = resolve_path(workspace, "folder/file")
    (workspace / "folder").rename(workspace / "moved")
    (workspace / "folder").symlink_to(outside)
    with pytest.raises(ToolError):
        open_file(workspace, resolved)
    with pytest.raises(ToolError):
        replace_file(workspace, resolved, b"overwritten", seen_mtime_ns=(outside / "file").stat().st_mtime_ns)
    assert (outside / "file").read_text() == "secret"


def test_a_file_that_became_a_link_after_it_was_resolved_is_not_followed(workspace: Path) -> None:
    outside = workspace.parent / "secret"
    outside.write_text("secret")
    resolved = resolve_path(workspace, "file")
    resolved.symlink_to(outside)
    with pytest.raises(ToolError, match="symbolic link"):
        open_file(workspace, resolved)
    with pytest.raises(ToolError, match="not a regular file"):
        replace_file(workspace, resolved, b"overwritten", seen_mtime_ns=None)
    assert outside.read_text() == "secret"


def test_a_named_pipe_is_refused_at_once(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        open_file(workspace, workspace / "pipe")


def test_a_replacement_keeps_the_mode_and_leaves_no_other_file(workspace: Path) -> None:
    path = workspace / "script"
    path.write_text("old")
    path.chmod(0o751)
    mtime = replace_file(workspace, path, b"new", seen_mtime_ns=path.stat().st_mtime_ns)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_mtime_ns == mtime
    assert os.listdir(workspace) == ["script"]


def test_a_replacement_does_not_reach_through_a_hard_link(workspace: Path) -> None:
    outside = workspace.parent / "other"
    outside.write_text("theirs")
    path = workspace / "hard"
    os.link(outside, path)
    replace_file(workspace, path, b"mine", seen_mtime_ns=path.stat().st_mtime_ns)
    assert outside.read_text() == "theirs"


def test_a_file_that_changed_since_it_was_seen_is_left_alone(workspace: Path) -> None:
    path = workspace / "file"
    path.write_text("theirs")
    with pytest.raises(ToolError, match="has changed since you read it"):
        replace_file(workspace, path, b"mine", seen_mtime_ns=path.stat().st_mtime_ns - 1)
    with pytest.raises(ToolError, match="Read it first"):
        replace_file(workspace, path, b"mine", seen_mtime_ns=None)
    assert path.read_text() == "theirs"
    assert os.listdir(workspace) == ["file"]


def test_of_many_writers_that_saw_the_same_file_exactly_one_wins(workspace: Path) -> None:
    path = workspace / "file"
    path.write_text("start")
    os.utime(path, ns=(10**18, 10**18))
    barrier = threading.Barrier(8)
    won: list[int] = []

    def write(number: int) -> None:
        barrier.wait()
        try:
            replace_file(workspace, path, str(number).encode(), seen_mtime_ns=10**18)
            won.append(number)
        except ToolError:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == 1
    assert path.read_text() == str(won[0])


def test_the_mtimes_of_files_that_still_exist_are_found_again(workspace: Path) -> None:
    (workspace / "here").write_text("x")
    found = current_mtimes(workspace, ["here", "gone", "output:abc", "/etc/passwd"])
    assert found == {str(workspace / "here"): (workspace / "here").stat().st_mtime_ns}


@given(text=st.text(), codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_text_comes_back_as_the_same_bytes(text: str, codec: str) -> None:
    content = text.encode(codec, "replace")
    decoded = decode_text(content)
    assume(decoded is not None)
    assert decoded is not None and decoded[1].encode(decoded[0]) == content


def test_foreign_eight_bit_text_is_text_and_comes_back_unharmed() -> None:
    content = "Größe und Maß\n".encode("latin-1") * 50
    decoded = decode_text(content)
    assert decoded is not None and decoded[1].encode(decoded[0]) == content


def test_binary_data_is_recognised() -> None:
    assert sniff_encoding(b"\x7fELF\x02\x01\x01\0\0\0") is None
    assert sniff_encoding(bytes(range(128, 256)) * 20) is None


def test_a_character_cut_at_the_end_of_the_head_does_not_make_it_foreign() -> None:
    encoding = sniff_encoding("grün".encode()[:3])
    assert encoding is not None and encoding.codec == "utf-8"


@pytest.mark.parametrize("common", ["", "../.."])
def test_the_objects_of_a_checkout_whose_git_folder_lies_elsewhere_are_found(workspace: Path, common: str) -> None:
    git = workspace.parent / "repository" / "worktrees" / "one"
    git.mkdir(parents=True)
    if common:
        (git / "commondir").write_text(f"{common}\n")
    (objects := git / common / "objects").mkdir()
    (workspace / ".git").write_text(f"gitdir: {git}\n")
    found = find_git(workspace)
    assert found is not None and found.common / "objects" == objects.resolve()


def test_a_long_complaint_of_git_is_cut_at_a_word() -> None:
    told = str(read_failure("push", "word " * 300 + "the end"))
    assert "… word word" in told and told.endswith("the end")


def test_a_workspace_whose_name_is_not_utf_8_is_refused_in_words(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    odd.mkdir()
    with pytest.raises(ConfigurationError, match=r"odd.udcff. is not UTF-8; rename it"):
        find_workspace(odd)
