"""Keeps a workspace in step with its agent's journal, so any host can continue the agent.

After each call that may change files, a snapshot is pushed to the hub; the journal entry of the call's result names it. A new segment
restores the workspace to the last such entry. So nothing of an unfinished turn remains, and the push of a worker that has lost the
agent makes a ref that no journal names.

The host that wrote the last entry checks nothing, unless a mark beside the index says that a call was under way.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from swarm.agent.entries import Finished, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.notes import files_left_out, files_too_many, files_unsettled, host_changed, setup_done
from swarm.core.errors import GitFailed, HubAway, NotOwner
from swarm.core.log import EventLog
from swarm.definitions.setups import Setup
from swarm.models import Block
from swarm.runtime.scratch import scratch_root
from swarm.runtime.segment import Segment
from swarm.runtime.steps import Step, Turn
from swarm.tools.background import kill_shells
from swarm.workspace.checkouts import (
    entry_ref,
    forget_index,
    job_url,
    make_in_folder,
    open_checkout,
    open_snapshots,
    result_ref,
)
from swarm.workspace.dependencies import Dependencies
from swarm.workspace.git_command import form_of
from swarm.workspace.histories import fetch_with_history
from swarm.workspace.parts import fetch_parts, push_parts
from swarm.workspace.repository import NETWORK_SECONDS, Repository, Snapshot
from swarm.workspace.spares import become

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.files")
ENTER_SECONDS = 20.0
"""How long a segment that has not begun waits for the hub before it gives its process back."""
AWAY_AGAIN_SECONDS = 30.0
"""When the agent tries again after that."""
_FIRST_SECONDS, _LONGEST_SECONDS = 30.0, 600.0
"""Time limits of attempts to reach the hub; each doubles the one before."""
_TELL_SECONDS = 10.0
Found = TypeVar("Found")


class WorkspaceSync(Step):
    """File synchronization of a segment. This base class does nothing: files stay in place."""

    def keep(self, finished: ToolFinished) -> ToolFinished:
        """Add the commit of a call's files to its result. Raises `GitFailed`, `HubAway`, `NotOwner`."""
        return finished

    def after_call(self, call: Block, result: ToolFinished) -> ToolFinished:
        return self.keep(result)

    def ran(self) -> None:
        """End a command without an entry. The next call that may change files keeps its files."""

    def due_setup(self) -> Setup | None:
        """The setup that the workspace still needs on this host, if any."""
        return None

    def set_up(self, failure: str) -> None:
        """Record that the setup has run. `failure` is the note to the agent, empty on success."""

    def bring(self, commit: str) -> None:
        """Fetch the commit of another agent of the job. Raises `GitFailed`, `HubAway`."""

    def share(self, commit: str) -> None:
        """Publish a commit that the next entry names. Raises `GitFailed`, `HubAway`, `NotOwner`."""


class LocalSnapshots(WorkspaceSync):
    """Snapshots of a shared workspace, for people only. Nothing waits or fails for them."""

    def keep(self, finished: ToolFinished) -> ToolFinished:
        """Add a snapshot's commit if possible. Never raises."""
        segment = self.segment
        try:
            repository = open_snapshots(segment.settings.state_folder(), segment.workspace)
            took = repository.snapshot(repository.tip(), _about(segment))
        except GitFailed as error:
            log.warning("files.not_kept", agent_id=segment.spec.agent_id, why=error)
            return finished
        commit = took.commit or repository.tip() or ""
        return finished.model_copy(update={"commit": commit})


class ThroughHub(WorkspaceSync):
    """Files that arrive through the hub."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._segment, self._draining = parts.segment, parts.draining
        spec, settings = parts.segment.spec, parts.segment.settings
        assert spec.files is not None
        self._shown = ""
        self._form = form_of(spec.base)
        self._url = job_url(spec.files.hub, spec.job_id, self._form)
        # The token is only for the worker's own hub, whatever a record names.
        self._token = settings.hub_token if spec.files.hub == settings.hub else None

    @cached_property
    def _repository(self) -> Repository:
        spec, checkouts = self._segment.spec, self._segment.settings.checkouts_folder()
        name = spec.reading_place if spec.reads_with_others else spec.agent_id
        return open_checkout(checkouts, spec.job_id, name, Path(spec.workspace), self._form)

    def bring(self, commit: str) -> None:
        self._patiently(lambda seconds: self._repository.fetch(self._url, commit, self._token, seconds=seconds))

    def share(self, commit: str) -> None:
        claim, number = self._segment.claim, self._segment.journal.next_number
        ref = entry_ref(claim.agent_id, claim.generation, number)
        self._patiently(lambda seconds: self._push(commit, ref, seconds))

    @cached_property
    def _dependencies(self) -> Dependencies:
        names = self._segment.settings.dependency_names
        return Dependencies(self._repository.git_dir, self._repository.tree, names)

    def _bring_dependencies(self, commit: str) -> list[str]:
        """Bring the dependency folders that a commit names, as far as they can be had; returns their paths."""
        try:
            if not (told := self._repository.find_dependencies(commit)):
                return []
            self._fetch_parts([told])
            wanted = self._dependencies.list_wanted(told)
            self._fetch_parts(chain.from_iterable(wanted.values()))
            return self._dependencies.bring(wanted, told)
        except GitFailed as error:
            log.warning("files.no_dependencies", agent_id=self._segment.spec.agent_id, why=error)
            return []

    def _fetch_parts(self, parts: Iterable[str]) -> None:
        fetch_parts(self._repository.git_dir, self._url, parts, self._token, NETWORK_SECONDS, ("fetch",))

    def before_segment(self) -> Turn:
        try:
            self.enter()
        except HubAway:
            if self._segment.history.length == 0 or self._draining():
                raise  # An agent that has not begun cannot be parked, and others may reach the hub.
            return Condition(until=self._segment.claim.now() + AWAY_AGAIN_SECONDS)
        return None

    def enter(self) -> bool:
        """Restore the workspace; returns whether the host is new. Raises `GitFailed`, `HubAway`."""
        raise NotImplementedError

    def before_end(self, finished: Finished) -> Finished:
        self._show_result()
        return finished.model_copy(update={"commit": self._segment.history.commit})

    def clear(self) -> None:
        # For a cancelled agent; otherwise the result is public already.
        self._show_result()

    def _show_result(self) -> None:
        """Publish the workspace's final commit as the job's branch at the hub, for people."""
        spec, commit = self._segment.spec, self._segment.history.commit
        if spec.parent_id is not None or commit in ("", spec.base, self._shown):
            return
        self._shown = commit
        ref = result_ref(spec.job_id)
        try:
            self._repository.advance(self._url, commit, ref, self._token, seconds=ENTER_SECONDS)
        except GitFailed as error:
            # Nothing is lost: the commit is at the hub, and the journal names it.
            log.warning("files.no_branch", job_id=spec.job_id, commit=commit, why=error)

    def _push(self, commit: str, ref: str, seconds: float) -> None:
        make_in_folder(self._url, self._form)
        try:
            self._repository.push(self._url, commit, ref, self._token, seconds=seconds)
        except GitFailed as error:
            if error.trouble == "refused":
                raise NotOwner(self._segment.spec.agent_id, self._segment.claim.generation) from error
            raise

    # -- an unreachable hub --------------------------------------------------------------------------------

    def _patiently(self, act: Callable[[float], Found], give_up_after: float | None = None) -> Found:
        """Repeat an action until the hub is reachable. Raises `HubAway` when waiting is useless."""
        segment, began, told_at = self._segment, time.monotonic(), 0.0
        pause, seconds = 0.1, _FIRST_SECONDS
        while True:
            try:
                return act(seconds)
            except GitFailed as error:
                if error.trouble not in ("away", "denied"):
                    raise
                away = time.monotonic() - began
                if time.monotonic() - told_at > _TELL_SECONDS:
                    told_at = time.monotonic()
                    log.warning("hub.away", agent_id=segment.spec.agent_id, seconds=away, why=error)
                    segment.store.events.show_activity(segment.claim, f"waits for the hub ({error})"[:300])
                is_late = segment.claim.deadline is not None and segment.claim.now() > segment.claim.deadline
                if is_late or self._draining() or (give_up_after is not None and away > give_up_after):
                    raise HubAway(f"the hub is unreachable: {error}") from error
            with segment.stop.waiting():
                segment.stop.event.wait(pause)
            segment.stop.check()
            pause, seconds = min(2 * pause, 2.0), min(2 * seconds, _LONGEST_SECONDS)


class GitSync(ThroughHub):
    """Files that travel with their agent."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        spec, settings = parts.segment.spec, parts.segment.settings
        self._git_dir = settings.checkouts_folder() / f"{spec.agent_id}.git"
        self._busy, self._boot = self._git_dir / "swarm-busy", self._git_dir / "swarm-boot"
        self._owner = self._git_dir / "swarm-owner"
        """The generation of the claim that owns the workspace on this host."""
        self._moved = self._git_dir / "swarm-moved"
        """Pending notes for the agent about its host, added to its next call that may notice."""
        self._set_up = self._git_dir / "swarm-set-up"
        """Exists once the workspace's setup has run in this checkout."""
        self._scratch = scratch_root(settings) / spec.agent_id
        self._was_ready = False
        """Whether a spare checkout received the files."""

    def enter(self) -> bool:
        commit = self._segment.history.commit or self._segment.spec.base
        if not commit:
            return False
        if self._is_as_left(commit):
            self._owner.write_text(str(self._segment.claim.generation))
            return False
        was_here = self._boot.exists()
        if not Path(self._segment.spec.workspace).is_dir():
            self._set_up.unlink(missing_ok=True)
        if ended := kill_shells(self._scratch):
            log.info("files.shells_ended", agent_id=self._segment.spec.agent_id, number=ended)
        began = time.monotonic()
        self._patiently(lambda seconds: self._bring(commit, seconds), give_up_after=ENTER_SECONDS)
        self._restore_times(commit)
        brought = self._bring_dependencies(commit)
        self._boot.write_text(boot_id())
        self._owner.write_text(str(self._segment.claim.generation))
        self._busy.unlink(missing_ok=True)
        if not was_here and self._segment.history.commit:
            self._moved.write_text(host_changed(socket.gethostname(), brought), "utf-8")
        seconds, spare = time.monotonic() - began, self._was_ready
        log.info("files.brought", agent_id=self._segment.spec.agent_id, commit=commit, seconds=seconds, spare=spare)
        return not was_here

    def _is_as_left(self, commit: str) -> bool:
        """Whether this host left the workspace at that commit.

        Later changes by the agent's own shells count as the agent's.
        """
        with suppress(OSError):
            known = Repository(self._git_dir, Path(self._segment.spec.workspace))
            is_same = known.tip() == commit and self._boot.read_text() == boot_id()
            return is_same and not self._busy.exists() and known.tree.is_dir()
        return False

    def _bring(self, commit: str, seconds: float) -> None:
        try:
            fetch_with_history(self._git_dir.parent, self._repository, self._url, commit, self._token, seconds)
            self._was_ready = become(self._git_dir.parent, self._repository, commit, boot_id())
        except GitFailed as error:
            if error.trouble in ("away", "denied", "disk"):
                raise
            # Remains of a host crash in the git folder are useless. The hub has everything.
            log.warning("files.made_anew", agent_id=self._segment.spec.agent_id, why=error)
            forget_index(self._repository)
            del self._repository
            self._repository.fetch(self._url, commit, self._token, seconds=seconds, anew=True)
            self._repository.become(commit)

    def _restore_times(self, commit: str) -> None:
        """Restore unchanged files' times as the agent knows them, so it need not read them again."""
        history, tree = self._segment.history, Path(self._segment.spec.workspace)
        changed: dict[str, set[str]] = {}
        for path, known in history.files_read.items():
            seen_in = history.files_seen_in.get(path) or self._segment.spec.base
            with suppress(OSError, GitFailed, ValueError):
                name = str(Path(path).relative_to(tree))
                if os.lstat(path).st_mtime_ns == known:
                    continue
                if seen_in not in changed:
                    changed[seen_in] = set(self._repository.changed_paths(seen_in, commit))
                if name not in changed[seen_in]:
                    os.utime(path, ns=(known, known), follow_symlinks=False)

    # -- a call --------------------------------------------------------------------------------------------

    def before_call(self, call: Block) -> None:
        self._busy.write_text(str(call["id"]))

    def keep(self, finished: ToolFinished) -> ToolFinished:
        segment, previous = self._segment, self._segment.history.commit
        if self._owner.read_text() != str(segment.claim.generation):
            # This process was suspended beyond its lease: its successor here has the folder and the index.
            raise NotOwner(segment.spec.agent_id, segment.claim.generation)
        is_new = self._keep_dependencies()
        about = _about(segment)
        if dependencies := self._dependencies.told:
            about["dependencies"] = dependencies
        took = self._repository.snapshot(previous or None, about, always=is_new)
        if told := self._words(took):
            finished = finished.model_copy(update={"text": f"{finished.text}\n\n{told}"})
        commit = took.commit
        if commit is None:
            return finished
        try:
            self.share(commit)
        except GitFailed as error:
            if error.trouble != "full" or not previous:
                raise
            # The next host could not get this commit, so nothing may build on it.
            self._repository.become(previous)
            text = f"{finished.text}\n\n{files_too_many(str(error))}"
            return finished.model_copy(update={"text": text, "is_error": True})
        return finished.model_copy(update={"commit": commit})

    def _keep_dependencies(self) -> bool:
        """Keep the dependency folders if they have changed; returns whether they have. Nothing waits or fails for them."""
        try:
            return self._dependencies.keep(
                lambda parts: push_parts(self._git_dir, self._url, parts, self._token, NETWORK_SECONDS, optional=True)
            )
        except GitFailed as error:
            log.warning("files.dependencies_not_kept", agent_id=self._segment.spec.agent_id, why=error)
            return False

    def noted(self) -> None:
        self._moved.unlink(missing_ok=True)
        self.ran()

    def ran(self) -> None:
        self._busy.unlink(missing_ok=True)

    def due_setup(self) -> Setup | None:
        files = self._segment.spec.files
        is_due = files is not None and files.setup is not None and self._boot.exists() and not self._set_up.exists()
        return files.setup if files is not None and is_due else None

    def set_up(self, failure: str) -> None:
        files, news = self._segment.spec.files, self._news()
        told = failure or (setup_done(files.setup.source) if news and files and files.setup else "")
        if told:
            self._moved.write_text("\n\n".join(filter(None, [news, told])), "utf-8")
        self._set_up.touch()

    def _news(self) -> str:
        return self._moved.read_text("utf-8") if self._moved.exists() else ""

    def _words(self, took: Snapshot) -> str:
        """Notes for the agent about files that do not travel with it; each file once per host."""
        file = self._git_dir / "swarm-told"
        told: list[str] = []
        with suppress(OSError, ValueError):
            told = json.loads(file.read_text())
        new = {one.path: one.reason for one in took.left_out if one.path not in told}
        if new:
            file.write_text(json.dumps([one.path for one in took.left_out]))
        return "\n\n".join(filter(None, [self._news(), files_left_out(new), files_unsettled(took.unsettled)]))


def _about(segment: Segment) -> dict[str, object]:
    spec, number = segment.spec, segment.journal.next_number
    return {"job": spec.job_id, "agent": spec.agent_id, "generation": segment.claim.generation, "entry": number}


def boot_id() -> str:
    """Identify this boot of the host: a power cut may lose files but keep their marks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
