"""Folders of dependencies, which Git ignores: kept by their content, and on the next host as they were.

Tests of swarm/workspace/dependencies.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from swarm.core.errors import GitFailed
from swarm.workspace import dependencies
from swarm.workspace.checkouts import job_url, make_in_folder, open_checkout
from swarm.workspace.dependencies import Dependencies
from swarm.workspace.parts import fetch_parts, push_parts
from tests.git_world import listing
from tests.needs import need_program

NAMES = ("node_modules", ".venv", "target")


class Host:
    """A host's copy of an agent's workspace, and its dependency folders."""

    def __init__(self, top: Path, name: str, agent: str = "agent-1") -> None:
        checkouts = top / name / "checkouts"
        self.repository = open_checkout(checkouts, "job-1", agent, checkouts / agent / "w")
        self.tree, self.sent = self.repository.tree, list[str]()
        self.url = job_url(str(top / "hub"), "job-1", "sha1")
        make_in_folder(self.url, "sha1")
        (self.tree / ".gitignore").write_text("node_modules/\n/target\n")
        self.folders = Dependencies(self.repository.git_dir, self.tree, NAMES)

    def keep(self) -> str:
        """Keep the folders, however soon, and return the part that names them."""
        file = self.repository.git_dir / "swarm-dependencies"
        if file.exists():
            file.write_text(json.dumps({**json.loads(file.read_text()), "next": 0}))
        self.folders.keep(self._send)
        return self.folders.told

    def _send(self, parts: Iterable[str]) -> None:
        self.sent = list(parts)
        push_parts(self.repository.git_dir, self.url, self.sent, None, 60)

    def bring(self, told: str) -> list[str]:
        """Take the folders that another host has kept."""
        git_dir = self.repository.git_dir
        fetch_parts(git_dir, self.url, [told], None, 60, ("fetch",))
        wanted = self.folders.list_wanted(told)
        fetch_parts(git_dir, self.url, chain.from_iterable(wanted.values()), None, 60, ("fetch",))
        return self.folders.bring(wanted, told)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    need_program("git")
    return Host(tmp_path, "here")


def fill(folder: Path, files: int) -> None:
    for number in range(files):
        place = folder / f"package{number % 20}" / f"file{number}.js"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"content {number}\n")


def test_folders_are_on_the_next_host_as_they_were_with_their_times(host: Host, tmp_path: Path) -> None:
    modules, odd = host.tree / "packages/app/node_modules", os.fsdecode(b"odd\xff\n")
    fill(modules, 2_000)
    (modules / "empty").mkdir()
    (modules / "tool").write_bytes(os.urandom(5 << 20))
    (modules / "tool").chmod(0o755)
    (modules / odd).write_text("odd")
    (modules / ".bin").mkdir()
    (modules / ".bin/tool").symlink_to("../tool")
    os.mkfifo(modules / "pipe")
    os.utime(modules / "package1/file1.js", ns=(10**18, 10**18 + 7))
    (host.tree / "target").mkdir()
    (host.tree / "target/held").write_text("a snapshot has it")
    (host.tree / ".gitignore").write_text("node_modules/\n")
    told = host.keep()
    assert told and not host.folders.keep(lambda parts: None), "it is too early"
    assert host.keep() == told

    other = Host(tmp_path, "there")
    (other.tree / "packages/app/node_modules/stale").mkdir(parents=True)
    assert other.bring(told) == ["packages/app/node_modules"]
    came = other.tree / "packages/app/node_modules"
    (modules / "pipe").unlink()
    assert listing(came) == listing(modules) and (came / "empty").is_dir() and not (came / "stale").exists()
    for path in modules.rglob("*"):
        assert os.lstat(path).st_mtime_ns == os.lstat(came / path.relative_to(modules)).st_mtime_ns, path
    assert other.bring(told) == [] and other.keep() == told

    # A package more: only its chunk, the new table and the list are other parts.
    before = set(host.sent)
    (modules / "package1/more.js").write_text("more")
    assert host.keep() != told and len(set(host.sent) - before) <= 4 < len(before)


def test_a_virtual_environment_works_on_the_next_host_and_is_of_no_use_to_another_agent(
    host: Host, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(host.tree / ".venv")], check=True)
    (host.tree / ".venv/.gitignore").write_text("*\n")
    site = next(host.tree.glob(".venv/lib/*/site-packages"))
    (site / "mine.py").write_text("print('works')\n")
    fill(host.tree / "node_modules", 3)
    told = host.keep()
    assert Host(tmp_path, "there", "agent-2").bring(told) == ["node_modules"]
    (tmp_path / "here").rename(tmp_path / "gone")
    again = Host(tmp_path, "here")
    assert sorted(again.bring(told)) == [".venv", "node_modules"]
    ran = subprocess.run([str(again.tree / ".venv/bin/python"), "-c", "import mine"], capture_output=True, check=True)
    assert ran.stdout == b"works\n"


def test_what_cannot_be_kept_or_trusted_fails_alone(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(host.tree / "node_modules", 3)
    (host.tree / "node_modules/out").symlink_to(tmp_path)

    def fail(parts: Iterable[str]) -> None:
        raise GitFailed("the hub is full", "full")

    with pytest.raises(GitFailed, match="full"):
        host.folders.keep(fail)
    assert host.folders.told == "" and not host.folders.keep(fail), "it is too early to try again"
    told = host.keep()
    monkeypatch.setattr(dependencies, "MOST_BYTES", 1_000)
    fill(host.tree / "target", 200)
    assert host.keep() == told, "too large to be kept"
    for named in ('{"../node_modules": []}', '{"node_modules": ["--x"]}', "[]"):
        with pytest.raises(GitFailed, match="cannot be read"):
            host.folders.list_wanted(dependencies.store_parts(host.repository.git_dir, [named.encode()])[0])
    other = Host(tmp_path, "there")
    for path in ("out/x", "../x", "/x", "a/x", "", "out/../../x"):
        with pytest.raises(GitFailed, match="cannot be brought: it has a strange path"):
            other.folders.bring({"node_modules": _forge(other, path)}, told)
    with pytest.raises(GitFailed, match="cannot be brought: its contents end too early"):
        other.folders.bring({"node_modules": _forge(other, "x")}, told)
    assert not (other.tree / "node_modules").exists()


def _forge(host: Host, path: str) -> list[str]:
    entries = [{"path": "out", "kind": "l", "time": 0, "what": "/"}, {"path": path, "kind": "f", "time": 0, "what": 9}]
    table = zlib.compress(json.dumps({"at": "", "entries": entries}).encode())
    return dependencies.store_parts(host.repository.git_dir, [len(table).to_bytes(8, "big") + table])
