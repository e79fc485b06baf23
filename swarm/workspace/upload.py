"""A person's folder at a job's beginning: one commit, at the hub before the job exists."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm.core.errors import ConfigurationError, GitFailed
from swarm.core.settings import Settings
from swarm.workspace.checkouts import base_url, job_url, make_in_folder, open_snapshots
from swarm.workspace.git import run_git
from swarm.workspace.repository import Repository, Snapshot

SEND_SECONDS = 1_800.0
NEAR_FILES = 500
"""Files that may differ from the hub's base of a folder before the hub receives a new base."""
INCLUDE_FILE = ".worktreeinclude"
"""Lists, in the syntax of `.gitignore`, ignored files that copies of a folder include: `.env`, say."""
_SHOWN = 10


@dataclass(frozen=True)
class Upload:
    """The hub's commit of a folder."""

    commit: str
    warnings: list[str]
    """Files that the commit lacks, and why."""


def send_folder(settings: Settings, folder: Path, hub: str, job_id: str, agent_id: str) -> Upload:
    """Send the folder's current files, with uncommitted changes and without ignored files. Raises `GitFailed`."""
    repository = open_snapshots(settings.state_folder(), folder)
    previous = repository.tip()
    took = repository.snapshot(previous, {"job": job_id, "agent": agent_id}, also=held_though_ignored(folder))
    commit = took.commit or previous
    assert commit is not None, "a first snapshot always has a commit"
    url = job_url(hub, job_id)
    make_in_folder(url)
    try:
        if (base := base_url(hub)) is not None:
            _share_base(repository, base, commit, settings.hub_token)
        # A client that got no answer sends again, and the folder may have changed.
        repository.push(url, commit, f"refs/swarm/{agent_id}/0-{commit[:12]}", settings.hub_token, seconds=SEND_SECONDS)
    except GitFailed as error:
        raise GitFailed(
            f"the files of {folder} could not be sent to the hub {hub}, and nothing was submitted: {error}",
            error.trouble,
        ) from error
    return Upload(commit, _explain(folder, took))


def _share_base(repository: Repository, url: str, commit: str, token: str | None) -> None:
    """Push a folder's base once for all of its jobs; a push to a job's repository then sends only the rest."""
    noted = repository.git_dir / "swarm-base"
    known = noted.read_text().strip() if noted.exists() else ""
    with suppress(GitFailed):
        near = known and len(repository.changed_paths(known, commit)) <= NEAR_FILES
        # Every push lists each base, so there should be few.
        if near and repository.find(url, f"refs/swarm/base/{known}", token) == known:
            return
    repository.push(url, commit, f"refs/swarm/base/{commit}", token, seconds=SEND_SECONDS)
    noted.write_text(f"{commit}\n")


def held_though_ignored(folder: Path) -> list[bytes]:
    """Return ignored files that copies include: those in the person's own repository, and those in `.worktreeinclude`."""
    found = _list(folder, "--cached", "--exclude-standard")
    if (folder / INCLUDE_FILE).is_file():
        found += _list(folder, "--others", f"--exclude-from={folder / INCLUDE_FILE}")
    return list(dict.fromkeys(found))


def _list(folder: Path, *which: str) -> list[bytes]:
    try:
        listed = run_git(folder, ["ls-files", "-z", "--ignored", *which])
    except ConfigurationError:
        return []  # there is no repository
    return listed.stdout.split(b"\0")[:-1] if listed.returncode == 0 else []


def _explain(folder: Path, took: Snapshot) -> list[str]:
    told = [f"{one.path} ({one.reason})" for one in took.left_out]
    more = f" and {len(told) - _SHOWN:,} more" if len(told) > _SHOWN else ""
    left = [f"not carried from {folder}: {', '.join(told[:_SHOWN])}{more}"] if told else []
    if took.unsettled:
        left.append(f"something writes to {', '.join(took.unsettled[:_SHOWN])}; the job may have begun with half of it")
    return left
