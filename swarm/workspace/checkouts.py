"""Locations of carried files of agents, on a host and at the hub.

The folder of checkouts has the same path on all hosts. In it, `AGENT/NAME` is the workspace, named like the person's folder.
`AGENT.git` holds its index and refs, and `JOB.git` the objects of all agents of a job. All of it can be rebuilt from the hub.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from swarm.core.errors import GitFailed
from swarm.workspace.git_command import Form, call_git, make_git_folder, read_form
from swarm.workspace.origin import find_form
from swarm.workspace.repository import Repository

READERS = "swarm-readers"
"""Lock file held by each reader of a shared checkout."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_FOLDERS: dict[Form, str] = {"sha1": "jobs", "sha256": "jobs/sha256"}
"""The folder of jobs' repositories at the hub, which makes those below `sha256` in that form."""


def place_checkout(checkouts: Path, agent_id: str, name: str) -> Path:
    """Return the path of an agent's workspace; `name` is the folder's name for the agent."""
    return checkouts / _checked(agent_id) / (name or "workspace")


def open_checkout(checkouts: Path, job_id: str, agent_id: str, tree: Path, form: Form = "sha1") -> Repository:
    """Return the repository of an agent's workspace on this host, made in this form if missing. Raises `GitFailed`."""
    # A record may name any path, and the folder is overwritten by a commit.
    if tree != checkouts / _checked(agent_id) / tree.name or tree.name in ("", ".."):
        raise GitFailed(f"{tree} is not the workspace of {agent_id} below {checkouts}", "failed")
    return open_folder(checkouts, job_id, agent_id, tree, form)


def open_folder(checkouts: Path, job_id: str, agent_id: str, tree: Path, form: Form | None = None) -> Repository:
    """Return an agent's repository of any folder, with its job's objects. A folder below the checkouts is a copy.

    A new job's objects have this form, else that of the folder's own repository.
    """
    store, git_dir = place_store(checkouts, job_id), checkouts / f"{_checked(agent_id)}.git"
    try:
        _make_store(store, tree, form)
        if not os.path.lexists(git_dir / "objects"):
            git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            (git_dir / "objects").symlink_to(Path("..", store.name, "objects"))
    except OSError as error:
        raise GitFailed(f"checkouts cannot be made below {checkouts}: {error}", "failed") from error
    owner = agent_id if tree.is_relative_to(checkouts) else ""
    return Repository.make(git_dir, tree, owner=owner, form=read_form(store))


def place_store(checkouts: Path, job_id: str) -> Path:
    """Return the git folder with the objects of all agents of a job."""
    return checkouts / f"{_checked(job_id)}.git"


def open_snapshots(state: Path, workspace: Path, form: Form | None = None) -> Repository:
    """Return this host's repository for snapshots of a shared workspace, in this form, else that of its own repository.

    Raises `GitFailed`.
    """
    form = form or find_form(workspace)
    mark = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:8] + ("" if form == "sha1" else f"-{form}")
    return Repository.make(state / "snapshots" / f"{workspace.name[:60]}-{mark}.git", workspace, form=form)


def forget_index(repository: Repository) -> None:
    """Delete the git folder of a workspace on this host, so that a commit replaces all of its files."""
    shutil.rmtree(repository.git_dir, ignore_errors=True)


def hold_for_reading(git_dir: Path) -> int:
    """Keep a shared checkout from removal until the returned descriptor is closed. Raises `GitFailed`."""
    try:
        while True:
            (git_dir / "making").mkdir(mode=0o700, exist_ok=True)
            held = os.open(git_dir / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(held, fcntl.LOCK_SH)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held), os.stat(git_dir / READERS)):
                    return held
            # The checkout was removed meanwhile.
            os.close(held)
    except OSError as error:
        raise GitFailed(f"{git_dir} cannot be held: {error}", "failed") from error


def _make_store(store: Path, tree: Path, form: Form | None) -> None:
    done = store / "swarm-made"
    if done.exists():
        return
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_git_folder(store, form or find_form(tree))
    done.touch()


def lend_objects(store: Path, objects: Path) -> None:
    """Let a git folder read the objects of another one."""
    alternates = store / "objects/info/alternates"
    alternates.parent.mkdir(parents=True, exist_ok=True)
    known = alternates.read_text().splitlines() if alternates.exists() else []
    if str(objects) not in known:
        alternates.write_text("".join(f"{one}\n" for one in [*known, str(objects)]))


def _checked(name: str) -> str:
    if not _ID.fullmatch(name):
        raise GitFailed(f"{name[:100]!r} is no id that can name a folder", "failed")
    return name


# -- at the hub ----------------------------------------------------------------------------------------------


def job_url(hub: str, job_id: str, form: Form) -> str:
    """The repository of a job's commits."""
    return hub if hub.endswith(".git") else f"{hub}/{_FOLDERS[form]}/{_checked(job_id)}.git"


def base_url(hub: str, form: Form) -> str | None:
    """Return the repository that later jobs' repositories borrow from; None if the hub has none."""
    is_served = hub.startswith(("http://", "https://")) and not hub.endswith(".git")
    return f"{hub}/{_FOLDERS[form]}/base.git" if is_served else None


def make_in_folder(url: str, form: Form) -> None:
    """Make a missing repository if the hub is a folder; a server makes its own. Raises `GitFailed`."""
    parts = urlsplit(url)
    folder = Path(url if url.startswith("/") else parts.path)
    if parts.scheme in ("", "file") and not (folder / "objects").exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            # A file system that is not mounted now may be later.
            raise GitFailed(f"the hub's folder {folder} cannot be made: {error.strerror}", "away") from error
        make_git_folder(folder, form)
        call_git(folder, ["config", "receive.shallowUpdate", "true"])


def result_ref(job_id: str) -> str:
    """Return the branch of the files that a job's first agent left at its end."""
    return f"refs/heads/swarm/{_checked(job_id)}"


def entry_ref(agent_id: str, generation: int, number: int) -> str:
    """Return the ref of the commit that a journal's entry names. It is unique: a claim has one entry of a number."""
    return f"refs/swarm/{agent_id}/{generation}-{number}"
