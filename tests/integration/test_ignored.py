"""What a person's own repository ignores stays behind, wherever the rule stands; Git is asked, and is the oracle.

Tests of swarm/cli/sent_files.py, swarm/workspace/manifest.py, swarm/workspace/origin.py, swarm/workspace/upload.py.
"""

from __future__ import annotations

import os
import random
import subprocess
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swarm import Settings
from swarm.cli.sent_files import hold_secrets
from swarm.core.errors import ConfigurationError
from swarm.workspace.copies import Copies
from swarm.workspace.manifest import leave_remembered, survey
from swarm.workspace.origin import find_git, is_ignored
from swarm.workspace.repository import Repository
from swarm.workspace.upload import send_folder
from tests.needs import need_program

NAMES = ("a", "b", "ab", "app", "out", "x.log", "x.o", "é", "a b", ".env")
PATTERNS = (
    *(
        "*.log",
        "!x.log",
        "out/",
        "/out",
        "app/*",
        "!app/a",
        "a/**",
        "**/b",
        "**/a/b",
        "a/*/b",
        "/app/out/",
        "ab?",
        "[ab]",
    ),
    *(
        "!b",
        "packages/*/out",
        "/packages/app/a",
        "packages/**/x.o",
        "!packages/app/x.o",
        "**/app/b/",
        "*.o",
        ".env",
        "é",
        "a b",
    ),
)


def git(folder: Path, *words: str, home: Path, given: str | None = None) -> str:
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "GIT_CONFIG_NOSYSTEM": "1"}
    named = ["git", "-c", "user.name=p", "-c", "user.email=p@x", "-c", "core.quotePath=false", *words]
    return subprocess.run(
        named, cwd=folder, input=given, env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with settings of its own."""
    need_program("git")
    (tmp_path / "home/config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    return tmp_path / "home"


def test_no_file_that_git_ignores_is_sent_wherever_the_rule_stands(home: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    folder = top / "packages/app"
    (folder / "sub").mkdir(parents=True)
    git(top, "init", "-q", home=home)
    (home / "listed").write_text("by-setting\n")
    git(top, "config", "--global", "core.excludesFile", "~/listed", home=home)
    (top / ".git/info/exclude").write_text("by-exclude\n")
    (top / ".gitignore").write_text("by-top\n/packages/app/by-anchor\n")
    (folder / "sub/.gitignore").write_text("by-nested\n!by-top\n")
    ignored = ("by-setting", "by-exclude", "by-top", "by-anchor", "sub/by-nested", "held")
    for name in (*ignored, "kept", "sub/by-top"):
        (folder / name).write_text(name)
    git(top, "add", "-f", "packages/app/held", home=home)
    nested = folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q", home=home)
    for name in ("in-nested", "nested-secret", ".gitignore"):
        (nested / name).write_text("nested-secret\n")
    sent = send_folder(Settings(state_dir=tmp_path / "s"), folder, f"{tmp_path}/hub", "job-1", "agent-1")
    [repository] = tmp_path.glob("hub/**/job-1.git")
    there = git(repository, "ls-tree", "-r", "--name-only", sent.commit, home=home).splitlines()
    assert set(there) == {"held", "kept", "sub/.gitignore", "sub/by-top", "nested/.gitignore", "nested/in-nested"}
    (home / "listed").unlink()
    git(top, "config", "--global", "--unset", "core.excludesFile", home=home)
    (home / "config/git/ignore").write_text("kept\n")
    git(top, "rm", "-q", "--cached", "packages/app/held", home=home)
    (top / ".git/info/exclude").write_text("held\n")
    again = send_folder(Settings(state_dir=tmp_path / "s"), folder, f"{tmp_path}/hub", "job-1", "agent-1")
    there = git(repository, "ls-tree", "-r", "--name-only", again.commit, home=home).splitlines()
    assert {"held", "kept"}.isdisjoint(there) and {"by-setting", "by-exclude"} <= set(there)


def test_the_files_that_would_go_are_listed_and_a_secret_is_asked_about_once(home: Path, tmp_path: Path) -> None:
    folder, state = tmp_path / "w", tmp_path / "state"
    (folder / "out").mkdir(parents=True)
    state.mkdir()
    git(folder, "init", "-q", home=home)
    token = "ghp_" + "a1" * 18
    files = {
        ".gitignore": "out/\n",
        ".env": "A=1",
        "conf": token,
        "tracked": token,
        "out/made": "",
        ".env.example": "A=",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "tracked", home=home)
    subprocess.run(["truncate", "-s", "257M", str(folder / "large")], check=True)
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "out/pipe")
    found = survey(folder)
    assert found.goes == [".env", ".env.example", ".gitignore", "conf", "tracked"]
    assert found.stays == {
        "out/": "ignored",
        "large": "it has 269,484,032 bytes, more than 256 MiB",
        "pipe": "it is a pipe",
    }
    assert found.secrets == {".env": "its name", "conf": "its content"}
    job: Any = SimpleNamespace(spec=SimpleNamespace(is_carried=True, repository=None), folder=folder)
    settings = Settings(state_dir=state)
    hold_secrets(job, None, settings)
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        hold_secrets(job, StringIO("n\n"), settings)
    hold_secrets(job, StringIO("y\n"), settings)
    hold_secrets(job, StringIO(""), settings)
    assert leave_remembered(state, folder, found.secrets) == {}
    (folder / ".env").write_text("A=2")
    assert leave_remembered(state, folder, found.secrets) == {".env": "its name"}


@pytest.mark.parametrize("seed", range(3))
def test_copies_ignore_what_the_repository_ignores_under_any_rules(home: Path, tmp_path: Path, seed: int) -> None:
    compare(home, tmp_path, random.Random(seed), files=120)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_copies_ignore_what_the_repository_ignores_on_ten_thousand_paths(home: Path, tmp_path: Path, seed: int) -> None:
    compare(home, tmp_path, random.Random(seed), files=260)


def compare(home: Path, tmp_path: Path, chance: random.Random, files: int) -> None:
    """Compare the files that go in, and those that a copy keeps, with what Git says of the same paths."""
    top = tmp_path / "top"
    folder = top / "packages/app" if chance.random() < 0.6 else top
    folder.mkdir(parents=True)
    git(top, "init", "-q", home=home)
    for place in (
        home / "config/git/ignore",
        top / ".git/info/exclude",
        top / ".gitignore",
        top / "packages/.gitignore",
    ):
        place.parent.mkdir(exist_ok=True)
        place.write_text("\n".join(chance.sample(PATTERNS, chance.randint(0, 3))))
    paths = sorted(
        {f"{'/'.join(chance.choices(NAMES, k=chance.randint(1, 4)))}/f{n % 9}.{n % 2 * 'o'}" for n in range(files)}
    )
    paths += [f"{name}" for name in NAMES if not any(path.startswith(f"{name}/") for path in paths)]
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    for inner in chance.sample(sorted({os.path.dirname(path) for path in paths}), 2):
        (folder / inner / ".gitignore").write_text("\n".join(chance.sample(PATTERNS, 2)))
        paths.append(os.path.normpath(f"{inner}/.gitignore"))
    found = find_git(folder)
    assert found is not None
    if is_ignored(folder, found):
        return  # Then its files are meant all the same.
    told = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], cwd=folder, input="\0".join(paths), capture_output=True, text=True
    )
    wanted = set(paths) - set(told.stdout.split("\0"))
    copies = Copies(tmp_path / "checkouts", "job-1")
    began = copies.repository("job-1-person", folder).begin({}).commit or ""
    assert held(copies, began) - {".gitignore", "packages/.gitignore"} == wanted
    # What an agent makes in its copy is judged by the same rules.
    copy = copies.repository("agent-1", tmp_path / "checkouts/agent-1/app")
    copy.become(began)
    for path in set(paths) - wanted:
        (copy.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (copy.tree / path).write_text("made again")
    assert copy.snapshot(began, {}).commit is None, set(copy.changed_paths(began, copy.tip() or began))


def held(copies: Copies, commit: str) -> set[str]:
    return set(Repository(copies.store, copies.store).changed_paths("4b825dc642cb6eb9a060e54bf8d69288fbee4904", commit))
