"""The files that a new job begins with: as they are in a folder now, or as the job that it comes from had them then."""

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
from swarm.workspace.git_command import call_git

Reservation = Literal["", "restore", "here"]
"""Files as they were then, or the folder as it is; empty: as they were, where that was kept."""


@dataclass
class Layout:
    """Where the agents of the new job work."""

    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By old agent id, the fields of its spec that this changes."""
    restored: bool = False
    commit: str = ""
    """What the first agent's files are made of."""


class Restoring:
    """Brings the files of one moment back. Raises `ConfigurationError` for what was not kept, `GitFailed`."""

    def __init__(self, settings: Settings, past: Past, moment: Moment, ids: dict[str, str], job_id: str) -> None:
        self._settings, self._past, self._moment, self._ids, self._job_id = settings, past, moment, ids, job_id
        self._checkouts = settings.checkouts_folder()
        self._specs = {old: AgentSpec.model_validate(past.agents[old].spec) for old in moment.lives}
        self._first = self._specs[moment.agent_id]

    def lay_out(self, reservation: Reservation, folder: Path) -> Layout:
        """Decide where everybody works, and have the files there; `folder` is for who works in none of its own."""
        if self._first.is_carried:
            return self._carry()
        own = self._first.isolation != "none"
        sharing = [old for old, spec in self._specs.items() if spec.workspace == self._first.workspace]
        commit = self._moment.last_commit(sharing) or (self._first.base if own else "")
        if reservation == "restore" and not commit:
            raise ConfigurationError(
                f"{self._past.job_id} kept no files by then: jobs do with --snapshots, --isolation worktree or a hub; use --files here"
            )
        restored = bool(commit) and reservation != "here"
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
        """Have the new job's store of objects hold every commit that somebody begins with, whatever becomes of the old job's."""
        wanted = {old: given["base"] for old, given in layout.specs.items() if given.get("base")}
        if not wanted:
            return
        copies = Copies(self._checkouts, self._job_id)
        for old in wanted:
            open_folder(self._checkouts, self._job_id, self._ids[old], Path(layout.specs[old]["workspace"]))
        for objects in self._lenders():
            lend_objects(copies.store, objects)
        for old, commit in wanted.items():
            if not copies.has(commit):
                raise ConfigurationError(
                    f"the files of {self._past.job_id} by then ({commit[:12]}) are not on this host any more"
                )
            copies.name(self._ids[old], "base", commit)
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
        repository = open_checkout(self._checkouts, self._job_id, agent_id, tree)
        url = job_url(hub, self._job_id)
        make_in_folder(url)
        try:
            repository.fetch(job_url(hub, self._past.job_id), commit, token)
        except GitFailed as error:
            raise GitFailed(f"the hub has not what {self._past.job_id} held then: {error}", error.trouble) from error
        repository.push(url, commit, f"refs/swarm/{agent_id}/0-{commit[:12]}", token)
