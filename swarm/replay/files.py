"""Files for a new job: a folder's current ones, or those of the old job at the moment of the branch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError, GitFailed
from swarm.core.settings import Settings
from swarm.replay.branch import Moment
from swarm.replay.past import Past
from swarm.workspace.checkouts import (
    job_url,
    lend_objects,
    make_in_folder,
    open_checkout,
    open_folder,
    open_snapshots,
    place_checkout,
    place_store,
)
from swarm.workspace.copies import Copies
from swarm.workspace.git_command import call_git, form_of
from swarm.workspace.repository import Repository

FileSource = Literal["", "restore", "here"]
"""Restored files or the current folder; empty: restored, if they were kept."""


@dataclass
class Layout:
    """Folders and files of the new job's agents."""

    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changed fields of the spec, per old agent id."""
    restored: bool = False
    commit: str = ""
    """Commit of the first agent's files."""


class Restoring:
    """Restores the files of one moment. Raises `ConfigurationError` if they were not kept, and `GitFailed`."""

    def __init__(self, settings: Settings, past: Past, moment: Moment, ids: dict[str, str], job_id: str) -> None:
        self._settings, self._past, self._moment, self._ids, self._job_id = settings, past, moment, ids, job_id
        self._checkouts = settings.checkouts_folder()
        self._specs = {old: AgentSpec.model_validate(past.agents[old].spec) for old in moment.lives}
        self._first = self._specs[moment.agent_id]

    def lay_out(self, source: FileSource, folder: Path) -> Layout:
        """Choose the agents' folders and restore the files; `folder` is for agents without their own."""
        if self._first.is_carried:
            return self._carry()
        own = self._first.isolation != "none"
        sharing = [old for old, spec in self._specs.items() if spec.workspace == self._first.workspace]
        commit = self._moment.last_commit(sharing) or (self._first.base if own else "")
        if source == "restore" and not commit:
            raise ConfigurationError(
                f"{self._past.job_id} has no old files; use --files here, or run jobs with --snapshots, --isolation worktree or a hub"
            )
        restored = bool(commit) and source != "here"
        layout = self._place(restored, folder)
        if restored:
            layout.commit = commit
            layout.specs[self._moment.agent_id] |= {"isolation": "worktree", "base": commit}
        self._fill(layout)
        return layout

    def _place(self, restored: bool, folder: Path) -> Layout:
        first, places = self._moment.agent_id, {}
        for old, spec in self._specs.items():
            if spec.isolation != "none" or old == first:
                name = Path(spec.workspace).name
                places[spec.workspace] = str(place_checkout(self._checkouts, self._ids[old], name))
        if not restored:
            places[self._first.workspace] = str(folder)
        layout = Layout(restored=restored)
        for old, spec in self._specs.items():
            layout.specs[old] = {"workspace": places.get(spec.workspace, str(folder))}
            if spec.isolation != "none":
                layout.specs[old]["base"] = self._moment.commit_of(old) or spec.base
        if not restored:
            layout.specs[first] |= {"isolation": "none", "base": ""}
        return layout

    def _fill(self, layout: Layout) -> None:
        """Copy all needed commits to the new job's object store, so that the old job's may be removed."""
        wanted = {old: given["base"] for old, given in layout.specs.items() if given.get("base")}
        if not wanted:
            return
        copies, repositories = Copies(self._checkouts, self._job_id), dict[str, Repository]()
        for old, commit in wanted.items():
            tree = Path(layout.specs[old]["workspace"])
            repositories[old] = open_folder(self._checkouts, self._job_id, self._ids[old], tree, form_of(commit))
        for objects in self._lenders():
            lend_objects(copies.store, objects)
        for old, commit in wanted.items():
            if not copies.has(commit):
                raise ConfigurationError(
                    f"the old files of {self._past.job_id} ({commit[:12]}) are no longer on this host"
                )
            copies.name(self._ids[old], "base", commit)
            repositories[old].keep_large(commit)
        call_git(copies.store, ["repack", "-a", "-d", "-q"])
        (copies.store / "objects/info/alternates").unlink(missing_ok=True)

    def _lenders(self) -> list[Path]:
        found = [place_store(self._checkouts, self._past.job_id) / "objects"]
        if Path(self._first.workspace).is_dir():
            found.append(
                open_snapshots(self._settings.state_folder(), Path(self._first.workspace).resolve()).git_dir / "objects"
            )
        return [objects.resolve() for objects in found if objects.is_dir()]

    def _carry(self) -> Layout:
        layout = Layout(restored=True)
        for old, spec in self._specs.items():
            assert spec.files is not None
            commit = self._moment.commit_of(old) or spec.base
            tree = place_checkout(self._checkouts, self._ids[old], Path(spec.workspace).name)
            layout.specs[old] = {"workspace": str(tree), "base": commit}
            if commit:
                self._send(spec.files.hub, self._ids[old], tree, commit)
        layout.commit = layout.specs[self._moment.agent_id]["base"]
        return layout

    def _send(self, hub: str, agent_id: str, tree: Path, commit: str) -> None:
        token = self._settings.hub_token if hub == self._settings.hub else None
        form = form_of(commit)
        repository = open_checkout(self._checkouts, self._job_id, agent_id, tree, form)
        url = job_url(hub, self._job_id, form)
        make_in_folder(url, form)
        try:
            repository.fetch(job_url(hub, self._past.job_id, form), commit, token)
        except GitFailed as error:
            raise GitFailed(f"the hub lacks the old files of {self._past.job_id}: {error}", error.trouble) from error
        repository.push(url, commit, f"refs/swarm/{agent_id}/0-{commit[:12]}", token)
