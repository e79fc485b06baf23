"""Copies of the workspace: an agent gives them to children, works in its own, and merges.

Only the parent merges, in its own segment, when it takes in a child's result; so a folder has a single merger. The journal entry with
the result names the merged commit. After a crash before that entry, the merge runs again with the same result: merging merged work
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.agent import notes
from swarm.agent.entries import Finished
from swarm.agent.spec import AgentSpec
from swarm.core.errors import GitFailed, ToolError
from swarm.core.log import EventLog
from swarm.core.records import AgentView
from swarm.permissions.arrivals import find_leading_out, spread
from swarm.runtime.spawner import Spawning
from swarm.runtime.steps import Step, Turn
from swarm.tools import ToolResult
from swarm.workspace.changes_applied import ChangedMeanwhile
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.copies import ATTEMPTS, Copies, CopyPlan, plan_copies
from swarm.workspace.merge import (
    Strategy,
    describe_conflicts,
    find_base,
    leave_out,
    list_changes,
    merge_commits,
    put_beside,
    read_blob,
    resolve,
)
from swarm.workspace.repository import Repository

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.isolation")


def copy_of(parts: Parts) -> Isolation:
    """The agent's own copy, as a step of the loop."""
    return parts.isolation


@dataclass(frozen=True)
class Merged:
    """A merge: notes and states by agent id, and the folder's commit if anything was merged."""

    notes: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    commit: str = ""


class Isolation(Step):
    """The copies of one running agent and its children."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        segment = self._segment = parts.segment
        self._store, self._spec, self._files = segment.store, segment.spec, parts.files
        self._checkouts, self._folder = segment.settings.checkouts_folder(), Path(segment.spec.workspace)
        self._copies = Copies(self._checkouts, segment.spec.job_id)

    @property
    def plan(self) -> CopyPlan:
        """Which of the agent's children can have copies."""
        return plan_copies(self._checkouts)

    # -- the agent's own copy ------------------------------------------------------------------------------

    def before_segment(self) -> Turn:
        """Create the agent's own copy if it is missing."""
        if self._folder.parent != self._checkouts / self._spec.agent_id:
            where = f"its copy of the workspace is {self._folder}, but this worker keeps copies in {self._checkouts}"
            return Finished(state="failed", reason=f"{where}. Set SWARM_CHECKOUTS to one folder for all workers")
        try:
            self._copies.enter(self._spec.agent_id, self._folder, [self._segment.history.commit, self._spec.base])
        except GitFailed as error:
            return Finished(state="failed", reason=f"its copy of the workspace cannot be made: {error}")
        return None

    def before_end(self, finished: Finished) -> Finished:
        """Add the commit of the agent's own copy."""
        if self._segment.history.spec is None:
            return finished
        try:
            return finished.model_copy(update={"commit": self.keep("end")})
        except GitFailed as error:
            # The parent tries again.
            log.warning("copy.not_kept", agent_id=self._spec.agent_id, error=error)
            return finished

    def keep(self, mark: str) -> str:
        """Commit the agent's folder as it is now; `mark` says what for. Raises `GitFailed`."""
        history, claim = self._segment.history, self._segment.claim
        about = {"agent": claim.agent_id, "entry": history.length + 1, "kept": mark}
        commit = self._copies.keep(claim.agent_id, self._folder, history.commit, about)
        self._copies.name(claim.agent_id, f"{claim.generation}-{history.length + 1}", commit)
        return commit

    # -- the children's copies -----------------------------------------------------------------------------

    def give(self, plan: Spawning) -> str:
        """Keep the folder for children that get copies, and name the commit in their specs.

        Returns the commit, or an empty text.

        If that fails, those children are refused.
        """
        if self._spec.is_carried:
            return ""  # They begin from the last commit in the journal.
        isolated = {
            call_id: child
            for call_id, child in plan.children.items()
            if isinstance(child, AgentSpec) and child.isolation != "none"
        }
        if not isolated:
            return ""
        try:
            commit = self.keep("children")
        except GitFailed as error:
            for call_id in isolated:
                del plan.children[call_id]
                plan.refused[call_id] = notes.no_copy(str(error))
            return ""
        for call_id, child in isolated.items():
            plan.children[call_id] = child.model_copy(update={"base": commit})
        return commit

    def collect(self, ended: Sequence[AgentView]) -> Merged:
        """Merge completed agents' copies in this order, if nothing conflicts. Others get a note."""
        isolated = [child for child in ended if child.isolation != "none"]
        done = [child for child in isolated if child.state == "completed"]
        merged = self._merge(done, None) if done else Merged()
        for child in isolated:
            if child not in done:
                kept = self._find_kept(child)
                merged.notes[child.id] = notes.not_merged(child.id) if kept else notes.NOTHING_KEPT
                merged.states[child.id] = "kept" if kept else "unchanged"
        self._tell(merged)
        return merged

    def merge(self, child: AgentView, strategy: Strategy | None) -> ToolResult:
        """Carry out a call that chooses how to merge one child's work; None: only if nothing conflicts."""
        if child.isolation == "none":
            raise ToolError(f"{child.called} works in your own folder: there is nothing to merge.")
        if child.at_work:
            raise ToolError(f"{child.called} is still at work. Wait for it with WaitAgents, or stop it with StopAgent.")
        merged = self._merge([child], strategy)
        self._tell(merged)
        failed = merged.states.get(child.id) in ("conflict", "failed")
        return ToolResult(text=merged.notes[child.id], is_error=failed, commit=merged.commit)

    def _tell(self, merged: Merged) -> None:
        for agent_id, state in merged.states.items():
            self._store.events.emit_once(self._spec.job_id, "merge", agent_id, why=state)

    def _merge(self, children: Sequence[AgentView], strategy: Strategy | None) -> Merged:
        kept_out: dict[str, list[str]] = {}
        try:
            for _ in range(ATTEMPTS):
                try:
                    merged, in_the_way = self._merge_once(children, strategy, kept_out)
                except ChangedMeanwhile as error:
                    why = f"files of your folder are being changed ({', '.join(error.paths[:5])})"
                    continue
                if not in_the_way:
                    return merged
                why = f"these lie in the way: {', '.join(in_the_way[:20])}"
        except (GitFailed, ToolError) as error:
            why = str(error)
        ids = [child.id for child in children]
        return Merged(dict.fromkeys(ids, notes.merge_failed(why)), dict.fromkeys(ids, "failed"))

    def _merge_once(
        self, children: Sequence[AgentView], strategy: Strategy | None, kept_out: dict[str, list[str]]
    ) -> tuple[Merged, list[str]]:
        """Merge as much as possible; returns new paths in the way. `kept_out` has known ones."""
        repository = self._copies.repository(self._spec.agent_id, self._folder)
        ours = self.keep("merge")
        found, changed = Merged(commit=ours), {}
        for child in children:
            theirs = self._kept_by(child)
            note, state, tree = self._merge_one(found.commit, child, theirs, strategy, kept_out.get(child.id))
            if tree:
                about = {"agent": self._spec.agent_id, "merged": child.id}
                # The child's own changes, which a repeat lists in the same words.
                base = find_base(self._copies.store, self._known(ours), theirs)
                tree, left_out = self._leave_out(found.commit, tree, base, theirs)
                merged = repository.commit_tree(tree, [found.commit, theirs], about)
                changed[child.id] = repository.changed_paths(found.commit, merged)
                own = repository.changed_paths(base, theirs)
                note += notes.list_changes({path: kind for path, kind in own.items() if path not in left_out})
                note += notes.links_left_out(left_out)
                found = replace(found, commit=merged)
            found.notes[child.id], found.states[child.id] = note, state
        in_the_way = []
        if found.commit != ours:
            self._files.before_call({"id": "merge"})
            in_the_way = self._copies.carry_over(repository, ours, found.commit)
            if not in_the_way:
                self._share(repository, ours, found.commit)
        for agent_id, paths in changed.items():
            if hit := [path for path in in_the_way if path in paths]:
                kept_out[agent_id] = hit
        return found, in_the_way

    def _leave_out(self, ours: str, tree: str, base: str, theirs: str) -> tuple[str, dict[str, str]]:
        """Remove the child's links that lead out of the folder; returns the tree and the links."""
        store = self._copies.store
        led = find_leading_out(
            list_changes(store, base, theirs), self._folder, lambda one: read_blob(store, one.new_id)
        )
        if not led:
            return tree, {}
        changes = list_changes(store, ours, tree)
        left_out = spread(led, changes)
        return leave_out(store, tree, [one for one in changes if one.path in left_out]), left_out

    def _share(self, repository: Repository, ours: str, merged: str) -> None:
        try:
            self._files.share(merged)
        except GitFailed:
            # The next host could not get this commit, so nothing may build on it.
            repository.become(ours)
            raise

    def _known(self, ours: str) -> str:
        """The folder's commit by the journal, or its current commit if the journal names none."""
        commit = self._segment.history.commit
        return commit if commit and self._copies.has(commit) else ours

    def _merge_one(
        self, ours: str, child: AgentView, theirs: str, strategy: Strategy | None, in_the_way: list[str] | None
    ) -> tuple[str, str, str]:
        """Merge one child's work; returns a note, its new state, and the merged tree or nothing."""
        store = self._copies.store
        if not theirs:
            return notes.NOTHING_KEPT, "unchanged", ""
        if strategy == "none":
            return notes.left_alone(child.id), "left", ""
        if self._copies.holds(self._known(ours), theirs):
            return notes.NOTHING_TO_MERGE, "merged" if child.merge == "merged" else "unchanged", ""
        if in_the_way:
            return notes.in_the_way(child.id, in_the_way), "conflict", ""
        # If a dead worker had merged it already, the merge results in the current files.
        merge = merge_commits(store, ours, theirs)
        if not merge.conflicts:
            return notes.MERGED, "merged", merge.tree
        match strategy:
            case "ours" | "theirs" as side:
                return notes.resolved(side, len(merge.conflicts)), "merged", resolve(store, merge, side)
            case "merge":
                told, (tree, beside) = describe_conflicts(store, merge), put_beside(store, merge)
                return f"{notes.with_markers(len(merge.conflicts), beside)}\n\n{told}\n", "merged", tree
        told = describe_conflicts(store, merge)
        return f"{notes.conflicting(child.id, len(merge.conflicts))}\n\n{told}", "conflict", ""

    def _kept_by(self, child: AgentView) -> str:
        """The commit with the child's work; empty if it never had a copy."""
        if self._spec.is_carried:
            if commit := self._store.journals.last_commit(child.id):
                self._files.bring(commit)
            return commit
        last = self._store.journals.last_entry(child.id)
        if isinstance(last, Finished) and last.commit:
            return last.commit
        commit = self._copies.keep_left(child.id, place_checkout(self._checkouts, child.id, self._folder.name))
        if commit:
            self._copies.name(child.id, f"{child.generation}-{child.length}-left", commit)
        return commit

    def _find_kept(self, child: AgentView) -> str:
        try:
            return self._kept_by(child)
        except GitFailed as error:
            log.warning("copy.not_kept", agent_id=child.id, error=error)
            return ""
