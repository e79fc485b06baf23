"""Spare checkouts, ready before an agent needs them: making thousands of files is the longest part of bringing an agent's files.

After a host had to make all files of a checkout, it makes the same again, beside the agent's work. The next agent with a folder of that
name takes the spare, and only differences are written. A spare's content never matters: it is made equal to the commit like any other
folder. Its index knows all of its files, so none of them remains by accident.

In `.spares` below the checkouts, `NAME~MARK` is a ready spare, with `tree`, `git` with its index, and `about`. `NAME.wanted` requests a
spare. `.MARK` is being made or taken. A spare from before the host's last boot is not used: after a power cut, files of its index may
be missing.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm.core.errors import GitFailed
from swarm.workspace.changes import is_empty
from swarm.workspace.git_command import call_git, form_of
from swarm.workspace.repository import Repository

FOLDER = ".spares"
KEPT = 2
"""Spares kept ready for each name."""
SPARE_BYTES = 4 << 30
"""Free disk space that making a spare requires."""


def become(checkouts: Path, repository: Repository, commit: str, boot: str) -> bool:
    """Make a workspace equal to a commit, from a spare if it has no files yet; return whether one was taken.

    `boot` identifies the host's current boot. Raises `GitFailed`.
    """
    cold = is_empty(repository.tree) and not (repository.git_dir / "index").exists()
    taken = cold and _take(checkouts / FOLDER, repository, commit, boot)
    try:
        repository.become(commit)
    except GitFailed:
        if taken:
            shutil.rmtree(repository.tree, ignore_errors=True)
        raise
    if cold:
        _want(checkouts / FOLDER, repository, commit, boot)
    return taken


def make_spares(checkouts: Path) -> list[str]:
    """Make requested spares that are missing, and return their names. Concurrent calls make different ones."""
    made, folder = list[str](), checkouts / FOLDER
    for wanted in folder.glob("*.wanted"):
        own = folder / f".{secrets.token_hex(8)}"
        with suppress(OSError, ValueError, GitFailed):
            wanted.rename(own)
            about = json.loads(own.read_text())
            own.unlink()
            name = wanted.name.removesuffix(".wanted")
            while len(_ready(folder, name)) < KEPT and shutil.disk_usage(checkouts).free > SPARE_BYTES:
                _make(folder, name, about)
                made.append(name)
    return made


def _make(folder: Path, name: str, about: dict[str, Any]) -> None:
    new = folder / f".{secrets.token_hex(8)}"
    try:
        (new / "git").mkdir(mode=0o700, parents=True)
        (new / "git/objects").symlink_to(Path(about["store"], "objects"))
        form, commit = form_of(about["commit"]), about["commit"]
        Repository.make(new / "git", new / "tree", form=form).become(commit)
        told = {"boot": about["boot"], "form": form, "top": _list_top(new / "git", commit)}
        (new / "about").write_text(json.dumps(told))
        new.rename(folder / f"{name}~{secrets.token_hex(8)}")
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _take(folder: Path, repository: Repository, commit: str, boot: str) -> bool:
    ready = _ready(folder, _name(repository))
    if not ready:
        return False
    top = set(_list_top(repository.git_dir, commit))
    for spare in ready:
        with suppress(OSError, ValueError, KeyError):
            about = json.loads((spare / "about").read_text())
            # Another project of that name would have to be removed first, file by file.
            is_like = 2 * len(top & set(about["top"])) >= len(top | set(about["top"]))
            if is_like and (about["boot"], about["form"]) == (boot, form_of(commit)):
                return _move(folder, spare, repository)
    return False


def _move(folder: Path, spare: Path, repository: Repository) -> bool:
    own = folder / f".{secrets.token_hex(8)}"
    # One of two competing processes gets it.
    spare.rename(own)
    with suppress(FileNotFoundError):
        (own / "git/swarm-large").rename(repository.git_dir / "swarm-large")
    # Missing files of an index are made; files without an index could remain.
    (own / "git/index").rename(repository.git_dir / "index")
    repository.tree.rmdir()
    (own / "tree").rename(repository.tree)
    shutil.rmtree(own, ignore_errors=True)
    return True


def _want(folder: Path, repository: Repository, commit: str, boot: str) -> None:
    store = (repository.git_dir / "objects").resolve().parent
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        new = folder / f".{secrets.token_hex(8)}"
        new.write_text(json.dumps({"store": str(store), "commit": commit, "boot": boot}))
        new.rename(folder / f"{_name(repository)}.wanted")


def _ready(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}~*"))


def _name(repository: Repository) -> str:
    return re.sub(r"[^\w-]", "_", repository.tree.name)[:60]


def _list_top(git_dir: Path, commit: str) -> list[str]:
    listed = call_git(git_dir, ["ls-tree", "-z", "--name-only", commit])[1]
    return listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
