"""A person's folder at a job's beginning: one commit, on this host or at the hub before the job exists."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm.core.errors import GitFailed
from swarm.core.settings import Settings
from swarm.workspace.checkouts import base_url, job_url, make_in_folder, open_snapshots
from swarm.workspace.copies import Copies, person_of
from swarm.workspace.git_command import form_of
from swarm.workspace.histories import find_root, root_ref
from swarm.workspace.repository import Repository, Snapshot

SEND_SECONDS = 1_800.0
NEAR_FILES = 500
"""Files or commits that may differ from the hub's base of a folder before the hub receives a new base."""
_SHOWN = 10


@dataclass(frozen=True)
class Upload:
    """The commit of a folder."""

    commit: str
    warnings: list[str]
    """Files that the commit lacks, and why."""


def keep_folder(settings: Settings, folder: Path, job_id: str) -> Upload:
    """Keep the folder's current files for copies on this host. Raises `GitFailed`."""
    if not folder.is_dir():
        raise GitFailed(f"{folder} no longer exists", "missing")
    copies = Copies(settings.checkouts_folder(), job_id)
    took = copies.repository(person_of(job_id), folder).begin({"job": job_id})
    copies.name(person_of(job_id), "base", took.commit or "")
    return Upload(took.commit or "", _explain(folder, took, "not in copies of"))


def send_folder(settings: Settings, folder: Path, hub: str, job_id: str, agent_id: str) -> Upload:
    """Send the folder's current files, with uncommitted changes and without ignored files. Raises `GitFailed`."""
    repository, about = open_snapshots(settings.state_folder(), folder), {"job": job_id, "agent": agent_id}
    took, warnings = repository.begin(about), list[str]()
    try:
        try:
            _send(repository, hub, job_id, agent_id, took.commit or "", settings.hub_token)
        except GitFailed as error:
            if error.trouble in ("away", "denied"):
                raise
            # A history may be incomplete, broken, larger than the hub allows, or in a form that it does not know.
            repository = open_snapshots(settings.state_folder(), folder, "sha1")
            took = repository.begin(about, history=False)
            _send(repository, hub, job_id, agent_id, took.commit or "", settings.hub_token)
            warnings = [f"the history of {folder} is not sent, because the hub did not take it: {error}"]
    except GitFailed as error:
        raise GitFailed(
            f"the files of {folder} could not be sent to the hub {hub}, and nothing was submitted: {error}",
            error.trouble,
        ) from error
    return Upload(took.commit or "", [*_explain(folder, took, "not carried from"), *warnings])


def _send(repository: Repository, hub: str, job_id: str, agent_id: str, commit: str, token: str | None) -> None:
    form = form_of(commit)
    url = job_url(hub, job_id, form)
    make_in_folder(url, form)
    if (base := base_url(hub, form)) is not None:
        _share_base(repository, base, commit, token)
    # A client that got no answer sends again, and the folder may have changed.
    root, ref = find_root(repository, commit), f"refs/swarm/{agent_id}/0-{commit[:12]}"
    repository.push(url, commit, ref, token, seconds=SEND_SECONDS, also={root_ref(root): root})


def _share_base(repository: Repository, url: str, commit: str, token: str | None) -> None:
    """Push a folder's base once for all of its jobs; a push to a job's repository then sends only the rest."""
    noted = repository.git_dir / "swarm-base"
    known = noted.read_text().strip() if noted.exists() else ""
    with suppress(GitFailed):
        near = known and len(repository.changed_paths(known, commit)) <= NEAR_FILES
        # A base without the history would have each job send it.
        near = near and repository.count_between(known, commit) <= NEAR_FILES
        near = near and set(repository.list_parts(commit)) <= set(repository.list_parts(known))
        # Every push lists each base, so there should be few.
        if near and repository.find(url, f"refs/swarm/base/{known}", token) == known:
            return
    repository.push(url, commit, f"refs/swarm/base/{commit}", token, seconds=SEND_SECONDS)
    noted.write_text(f"{commit}\n")


def _explain(folder: Path, took: Snapshot, what: str) -> list[str]:
    told = [f"{one.path} ({one.reason})" for one in took.left_out]
    more = f" and {len(told) - _SHOWN:,} more" if len(told) > _SHOWN else ""
    left = [f"{what} {folder}: {', '.join(told[:_SHOWN])}{more}"] if told else []
    if took.unsettled:
        left.append(f"something writes to {', '.join(took.unsettled[:_SHOWN])}; the job may have begun with half of it")
    return left
