"""The root of a job that works on a repository: it fetches the files first, and pushes a branch before its end.

Both can be repeated after a crash at any instruction. The beginning is one commit, which the first worker that finishes writes into the
agent's record; then the agent is claimed again. The end notes a commit before it pushes it, so the branch is always at a noted commit, or
somebody else has moved it. A pull request is looked for before it is made, and its server allows one for a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.agent.decision import Action, CallModel, End
from swarm.agent.entries import Finished
from swarm.agent.journaled import Condition
from swarm.agent.spec import JobRepository
from swarm.capabilities.context.instructions import Instructions, load_instructions
from swarm.capabilities.repositories.forges import CommitState
from swarm.capabilities.repositories.pull_requests import PullRequests
from swarm.capabilities.repositories.pushes import Pushed, Pushes
from swarm.capabilities.repositories.words import (
    link_to,
    write_comment,
    write_review,
    write_status,
    write_text,
    write_title,
)
from swarm.core.errors import GitBusy, GitFailed
from swarm.core.log import EventLog
from swarm.core.plain import clean_text
from swarm.permissions.arrivals import find_arrivals
from swarm.runtime.steps import Again, Step, Turn
from swarm.workspace.checkouts import job_url, make_in_folder, open_checkout
from swarm.workspace.copies import Copies
from swarm.workspace.git_command import form_of
from swarm.workspace.histories import find_root, root_ref
from swarm.workspace.merge import list_changes, read_blob
from swarm.workspace.remotes import (
    Found,
    begin,
    fetch_beginning,
    find_branch,
    find_lack,
    push_branch,
    resolve,
    token_for,
)
from swarm.workspace.repository import Repository
from swarm.workspace.result import Result
from swarm.workspace.sites import LOCAL, Site, find_site, path_of

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.repositories")
TRY_AGAIN_SECONDS = 5.0
BEGIN_SECONDS = 600.0
"""How long a job's repository may be out of reach before its first segment fails. A slow fetch does not count."""
PUSH_SECONDS = 1_800.0
"""How long the end waits for the server."""
_NOWHERE = Path("/nonexistent")
_TEMPORARY = ("away", "disk", "full")


class RepositoryStep(Step):
    """The repository of a running root."""

    takes = (CallModel, End)

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        spec = self.segment.spec
        assert spec.repository is not None
        self._wanted: JobRepository = spec.repository
        self._pushes = Pushes(self.segment.store.keyspace, self.segment.claim)
        self._copies = Copies(self.segment.settings.checkouts_folder(), spec.job_id)
        self._done_at = -1
        """The length of the journal whose end is settled."""

    @property
    def _site(self) -> Site:
        found = find_site(self.segment.settings, self._wanted.url)
        if found is None:
            raise GitFailed(f"SWARM_FORGES does not name {self._wanted.site} on this worker; add it there", "denied")
        return found

    @property
    def _branch(self) -> str:
        return self._wanted.branch or f"swarm/{self.segment.spec.job_id}"

    def _open(self, commit: str) -> Repository:
        """Return the repository of the agent's workspace, in the form of this commit of its history."""
        spec, checkouts = self.segment.spec, self.segment.settings.checkouts_folder()
        return open_checkout(checkouts, spec.job_id, spec.agent_id, Path(spec.workspace), form_of(commit))

    # -- the beginning -------------------------------------------------------------------------------------

    def before_segment(self) -> Turn:
        segment, spec = self.segment, self.segment.spec
        if spec.base:
            if segment.claim.unread:
                self._take_review()
            return None
        pushed = self._pushes.read()
        try:
            base = self._begin()
            instructions = self._read_instructions(base)
        except GitFailed as error:
            now = segment.claim.now()
            # Another job's fetch of the same repository can take long, and ends.
            since = now if isinstance(error, GitBusy) else pushed.since or now
            if error.trouble in _TEMPORARY and now - since < BEGIN_SECONDS:
                self._pushes.note(pushed.model_copy(update={"since": since}))
                log.warning("repository.away", job_id=spec.job_id, why=error)
                segment.store.events.show_activity(segment.claim, f"waits for its repository ({error})"[:300])
                with segment.stop.waiting():
                    segment.stop.event.wait(TRY_AGAIN_SECONDS)
                segment.stop.check()
                return Again("its repository is out of reach")
            return Finished(state="failed", reason=f"the job has no files to work on: {error}")
        if pushed.since:
            self._pushes.note(self._pushes.read().model_copy(update={"since": 0.0}))
        self._pushes.begin_from(segment.claim.spec.model_copy(update={"base": base}), instructions)
        return Again("its repository is fetched")

    def _begin(self) -> str:
        """Fetch the repository, and make the commit that the job's files begin as."""
        segment, spec, wanted, site = self.segment, self.segment.spec, self._wanted, self._site
        self._check_push(site)
        if site.name == LOCAL and (why := segment.ceiling.refuse_workspace(path_of(wanted.url), "here")):
            raise GitFailed(why, "denied")
        found = Found(wanted.commit, wanted.target) if wanted.commit else resolve(wanted.url, wanted.ref, site)
        repository = self._open(found.commit)
        standing = fetch_beginning(segment.settings, repository, wanted.url, found, wanted.ref, site)
        if wanted.commit_status and wanted.ref:
            self._show_beginning(found.commit)
        base = begin(repository, standing, {"job": spec.job_id, "agent": spec.agent_id})
        if lack := find_lack(repository, base):
            self._tell("lacking", lack)
        if spec.files is not None and spec.is_carried:
            form, token = form_of(base), segment.settings.hub_token
            url = job_url(spec.files.hub, spec.job_id, form)
            token = token if spec.files.hub == segment.settings.hub else None
            make_in_folder(url, form)
            root = find_root(repository, base)
            ref = f"refs/swarm/{spec.agent_id}/0-{base[:12]}"
            repository.push(url, base, ref, token, seconds=PUSH_SECONDS, also={root_ref(root): root})
        else:
            self._copies.name(spec.agent_id, "base", base)
        return base

    def _read_instructions(self, base: str) -> str:
        """Return the job's instruction files, as JSON, with those of the repository; empty if it has none or they are off."""
        known = self.segment.carried("instructions", Instructions, "the instruction files")
        if known is None:
            return ""
        repository = self._open(base)
        repository.become(base)
        found = load_instructions(repository.tree, _NOWHERE, managed=_NOWHERE)
        return known.followed_by(found).model_dump_json() if found.text or found.rules else ""

    def _check_push(self, site: Site) -> None:
        """Raise `GitFailed` now, not at the end, if the order needs a token that is not there."""
        if self._wanted.needs_forge and not site.kind:
            raise GitFailed(
                f'SWARM_FORGES does not say what {site.name} is on this worker; use "github:", "gitlab:" or "gitea:"',
                "denied",
            )
        if self._wanted.needs_forge and not site.secret:
            raise GitFailed(f"the API of {site.name} needs a token: {site.lack}", "denied")

    # -- the end -------------------------------------------------------------------------------------------

    def due(self, action: Action) -> Callable[[], Turn] | None:
        if isinstance(action, CallModel):
            # A request for a review comes with a message.
            return self._take_review if self.segment.journal.unread and self._pushes.wanted_review() else None
        if not isinstance(action, End) or (action.finished.state != "completed" and not self._reports_failures):
            return None
        finished = action.finished
        return None if self._done_at == self.segment.history.length else lambda: self._deliver(finished)

    def _deliver(self, finished: Finished) -> Turn:
        """Bring the work and its check to the server; wait a while for one out of reach, and else note why the work is not there."""
        segment = self.segment
        since = self._pushes.read().since or segment.claim.now()
        trouble = _trouble_of(lambda: self._hand_in(finished))
        if trouble is not None and self._may_wait(trouble, since):
            return self._wait(since, unpushed=str(trouble))
        if self._wanted.commit_status:
            shown = finished
            if trouble is not None and finished.state == "completed":
                shown = Finished(state="failed", reason=f"the work is not on the server: {trouble}")
            if (untold := _trouble_of(lambda: self._show_end(shown))) is not None:
                if self._may_wait(untold, since):
                    return self._wait(since, unpushed="")
                log.warning("repository.check_not_shown", job_id=segment.spec.job_id, why=untold)
        if trouble is not None:
            log.warning("repository.not_pushed", job_id=segment.spec.job_id, why=trouble)
            latest = self._pushes.read().model_copy(update={"since": 0.0})
            self._pushes.note(
                latest,
                unpushed=f"{trouble}; `swarm apply {segment.spec.job_id} --into DIR` applies the work to a clone",
            )
        self._done_at = segment.history.length
        return None

    def _hand_in(self, finished: Finished) -> None:
        if finished.state == "completed":
            self._push(self._pushes.read(), finished)
        if self._wanted.issue:
            self._comment(finished)

    def _may_wait(self, trouble: GitFailed, since: float) -> bool:
        waited = self.segment.claim.now() - since
        return trouble.trouble in _TEMPORARY and waited < PUSH_SECONDS and not self.parts.draining()

    def _wait(self, since: float, *, unpushed: str) -> Condition:
        # The noted commits may have grown.
        self._pushes.note(self._pushes.read().model_copy(update={"since": since}), unpushed=unpushed)
        return Condition(until=self.segment.claim.now() + TRY_AGAIN_SECONDS)

    def _push(self, pushed: Pushed, finished: Finished) -> None:
        segment, site, wanted = self.segment, self._site, self._wanted
        snapshot = self._keep()
        commit = self._make_commit(pushed, snapshot)
        branch = self._branch
        if not commit:
            self._pushes.note(pushed.model_copy(update={"since": 0.0}), unpushed="")
            return
        there = find_branch(wanted.url, branch, site)
        if there != commit:
            if there and there not in pushed.commits:
                raise GitFailed(
                    f"the branch {branch} of {wanted.url} is at {there[:12]}, which this job did not push", "refused"
                )
            pushed = pushed.model_copy(update={"commits": (*pushed.commits[-50:], commit)})
            self._pushes.note(pushed)
            push_branch(self._copies.store, wanted.url, commit, branch, there, site)
            log.info("repository.pushed", job_id=segment.spec.job_id, branch=branch, commit=commit)
        pushed = pushed.model_copy(update={"commit": commit, "snapshot": snapshot, "since": 0.0})
        self._pushes.note(pushed, branch=branch, unpushed="")
        self._tell("pushed", f"{branch} is at {commit[:12]}")
        if wanted.pull_request:
            self._request(pushed, finished)

    def _request(self, pushed: Pushed, finished: Finished) -> None:
        """Open the pull request of the pushed branch, or bring its text up to date."""
        segment, wanted = self.segment, self._wanted
        requests, job = PullRequests(self._site, wanted.url), segment.store.jobs.get(segment.spec.job_id)
        text = write_text(job, finished.text, job.verdicts, self._find_risky(), self._link)
        if pushed.number:
            known, is_open = requests.get(pushed.number)
            if not is_open:
                raise GitFailed(f"the branch is pushed, but its pull request {known.address} is closed", "failed")
        else:
            target = wanted.target or resolve(wanted.url, wanted.ref, self._site).target
            known = requests.open(self._branch, target, write_title(job), text)
        requests.rewrite(known, text)
        self._pushes.note(pushed.model_copy(update={"number": known.number}), pull_request=known.address)
        self._tell("pull_request", known.address)

    def _tell(self, kind: str, why: str) -> None:
        """Tell people, once even if a worker dies and another one repeats the end."""
        self.segment.store.events.emit_once(
            self.segment.spec.job_id, kind, self.segment.spec.agent_id, why=clean_text(why)[:1_000]
        )

    def _comment(self, finished: Finished) -> None:
        """Tell the people of the issue how the job ends, once for each end."""
        segment, wanted = self.segment, self._wanted
        job = segment.store.jobs.get(segment.spec.job_id)
        mark = f"<!-- swarm {job.id} {segment.history.length} -->"
        text = write_comment(job, finished.state, finished.text or finished.reason, self._link)
        PullRequests(self._site, wanted.url).comment(wanted.issue, mark, text)

    @property
    def _reports_failures(self) -> bool:
        return self._wanted.issue > 0 or self._wanted.commit_status

    def _show_beginning(self, commit: str) -> None:
        """Show the job as a check at work; a failure is no reason not to work, and the end tells it."""
        self._pushes.note(self._pushes.read().model_copy(update={"began": commit}))
        try:
            self._show(commit, "running", "", "")
        except GitFailed as error:
            log.warning("repository.not_shown", job_id=self.segment.spec.job_id, why=error)

    def _show_end(self, finished: Finished) -> None:
        """Show the job's end as a check of the commit that it began from and of the last pushed one."""
        pushed, state = self._pushes.read(), finished.state
        for commit in filter(None, dict.fromkeys((pushed.began, pushed.commit))):
            self._show(
                commit, "success" if state == "completed" else "failure", state, finished.text or finished.reason
            )

    def _show(self, commit: str, mark: CommitState, state: str, answer: str) -> None:
        segment, job = self.segment, self.segment.store.jobs.get(self.segment.spec.job_id)
        name, told = f"swarm/{segment.spec.definition.name}", write_status(job, state, answer)
        PullRequests(self._site, self._wanted.url).set_status(commit, mark, name, told, self._link)

    @property
    def _link(self) -> str:
        return link_to(self.segment.settings.page, self.segment.spec.job_id)

    def _find_risky(self) -> dict[str, str]:
        """The changed files that programs outside of a sandbox obey, links that lead out, and files of Git LFS, with reasons."""
        spec, store = self.segment.spec, self._copies.store
        snapshot = self._keep()
        changes = list_changes(store, spec.base, snapshot)
        result = Result(
            self._copies, self._open(snapshot), self.segment.store.jobs.get(spec.job_id), spec.base, snapshot
        )
        obeyed = find_arrivals(changes, Path(spec.workspace), lambda one: read_blob(store, one.new_id))
        return {**obeyed, **result.find_lfs_files()}

    def _keep(self) -> str:
        """Return a commit with the files as they are now."""
        return self.segment.history.commit if self.segment.spec.is_carried else self.parts.isolation.keep("end")

    def _make_commit(self, pushed: Pushed, snapshot: str) -> str:
        """Commit the work on the last pushed commit, else on the one that the job began from; empty if there is no work."""
        spec, repository = self.segment.spec, self._open(snapshot)
        job = self.segment.store.jobs.get(spec.job_id)
        base, head = spec.base, ""
        if pushed.commit and (repository.has(pushed.commit) or self._fetch_pushed(repository, pushed.commit)):
            base, head = pushed.snapshot, pushed.commit
        if base != spec.base and not self._copies.has(base):
            self.parts.files.bring(base)
        result = Result(self._copies, repository, job, base, snapshot)
        began, ended = result.history
        commit = result.put_on(head or began, ended, began=began)
        return "" if commit == began else commit

    def _fetch_pushed(self, repository: Repository, commit: str) -> bool:
        """Fetch another host's push; False if the branch was removed or replaced since."""
        if not find_branch(self._wanted.url, self._branch, self._site):
            return False
        repository.fetch(self._wanted.url, f"refs/heads/{self._branch}", token_for(self._site))
        return repository.has(commit)

    # -- a review ------------------------------------------------------------------------------------------

    def _take_review(self) -> None:
        """Deliver the unresolved review comments if a person has asked for them."""
        if not (request := self._pushes.wanted_review()):
            return
        try:
            requests, number = PullRequests(self._site, self._wanted.url), self._pushes.read().number
            text = write_review(requests.get(number)[0].address, requests.comments(number))
        except GitFailed as error:
            text = f"The review comments could not be read: {error}"
        self.segment.publish(self._pushes.deliver_review(request, text))
        self.segment.journal.unread += 1


def _trouble_of(act: Callable[[], None]) -> GitFailed | None:
    try:
        act()
    except GitFailed as error:
        return error
    return None
