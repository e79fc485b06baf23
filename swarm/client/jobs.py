"""A person's handle on one job: read, follow, wait, write and cancel."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, overload

from swarm.agent.needs import Has, find_common_lack, read_needs
from swarm.client.ends import LOOK_SECONDS
from swarm.client.messages import Delivery, Messages
from swarm.core.errors import JobLost, UnknownAgent
from swarm.core.ids import root_agent_id
from swarm.core.records import AgentView, Event, JobView, read_event
from swarm.mailbox import USER
from swarm.store.outage import follow

if TYPE_CHECKING:
    from swarm.capabilities.team.board import Board, TaskTexts, TaskView
    from swarm.capabilities.team.scratchpad import Pad, PadPage
    from swarm.client.swarm import Swarm
    from swarm.client.work import Work

_IDLE_SECONDS = 1.0
_AWAY_SECONDS = 0.5
_REVIEW = "Work on the review comments of the pull request. They follow in a note. Say which ones you did not follow, and why."


def show_lack(agent: AgentView, workers: Sequence[Has] | None) -> AgentView:
    """Add the reason why no worker can run the agent; `workers` is None if they were not looked up."""
    if workers is None or agent.state != "queued":
        return agent
    needs = read_needs(agent.needs)
    unserved = find_common_lack(needs, workers) if needs is not None else ""
    return agent.model_copy(update={"unserved": unserved}) if unserved else agent


def as_ended(swarm: Swarm, job_ids: Collection[str], *, who: str) -> Iterator[JobView]:
    """Yield each of these jobs once it has ended. One thread and one blocking command wait for all of them.

    The call waits for an unavailable Redis as long as needed, and reports this to `Swarm.tell` in the name of `who`. Raises `JobLost`.
    """
    rung, left, due = SimpleQueue[str](), set(job_ids), set[str]()

    def ask() -> list[JobView]:
        # A due job stays due until Redis has answered.
        if not due:
            try:
                due.add(rung.get(timeout=LOOK_SECONDS))
            except Empty:
                due.update(left)
        while not rung.empty():
            due.add(rung.get())
        swarm.ends.check()
        wanted = due & left
        found = swarm.store.jobs.views(sorted(wanted))
        if lost := wanted - {one.id for one in found}:
            raise JobLost(min(lost))
        due.clear()
        return [one for one in found if one.ended]

    with ExitStack() as watching:
        for job_id in left:
            watching.enter_context(swarm.ends.watching(job_id, partial(rung.put, job_id)))
        answers = follow(swarm.store.outage(swarm.tell, who), ask, _AWAY_SECONDS)
        while left:
            for view in next(answers) or ():
                left.discard(view.id)
                yield view


class Job(Messages):
    """A handle on one job, including its person's correspondence."""

    def __init__(self, swarm: Swarm, job_id: str, *, warnings: Sequence[str] = (), new: bool = False) -> None:
        super().__init__(swarm.store, job_id, swarm.publish, swarm.store.outage(swarm.tell, job_id))
        self._swarm = swarm
        self.warnings = list(warnings)
        """Entries of settings files that could not be used at submission."""
        self.new = new
        """Whether this submission made the job, not an earlier one with the same idempotency key."""

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def send_review(self, text: str = "") -> Delivery:
        """Continue with the unresolved review comments of the job's pull request, and with a message about them.

        A worker that may reach the forge reads the comments; they follow the message as a note. Raises `ConfigurationError` if there is no
        pull request.
        """
        from swarm.capabilities.repositories.pushes import want_review

        self._recalled.jobs.get(self.id)
        want_review(self._store.keyspace, self.id)
        return self.deliver("root", text or _REVIEW)

    def score(
        self,
        name: str = "person",
        *,
        passed: bool | None = None,
        points: float | None = None,
        note: str = "",
        by: str = USER,
        remove: bool = False,
    ) -> None:
        """Set the score of that name, or a note that judges nothing; `remove` removes it. Raises `ConfigurationError` for bad values."""
        from swarm.capabilities.evaluations.store import make_score, score_job

        self._recalled.jobs.get(self.id)
        score = None if remove else make_score(passed=passed, points=points, note=note, by=by)
        score_job(self._store.keyspace, self.id, name, score)

    def view(self) -> JobView:
        """The job's current state. Raises `UnknownAgent` once it has expired."""
        return self._store.jobs.get(self.id)

    def agents(self) -> list[AgentView]:
        """All agents in their current state, oldest first; the root is the first."""
        records = self._recalled.agents.of(self.id)
        # Workers are looked up only while an agent waits for one.
        workers = self._swarm.workers() if any(one.state == "queued" for one in records) else None
        return [show_lack(record, workers) for record in records]

    def find_unmet(self) -> str:
        """The reason why no worker can run the job's queued agents; empty if one can, or none is queued."""
        return next((agent.unserved for agent in self.agents() if agent.unserved), "")

    @overload
    def follow(self, *, after: str = "0") -> Iterator[Event]: ...

    @overload
    def follow(self, *, after: str = "0", idle_seconds: float) -> Iterator[Event | None]: ...

    def follow(self, *, after: str = "0", idle_seconds: float | None = None) -> Iterator[Event | None]:
        """Follow the job's events after `after` up to its end (the last one, if it continued after an end).

        With `idle_seconds`, None is yielded after that long without an event, so that the caller can redraw or give up. The call waits
        for an unavailable Redis as long as needed and reports this to `Swarm.tell`. Raises `JobLost` if Redis comes back without the job.
        """
        happened = self._watch(after, _IDLE_SECONDS if idle_seconds is None else idle_seconds)
        return happened if idle_seconds is not None else (event for event in happened if event is not None)

    def _watch(self, after: str, idle_seconds: float) -> Iterator[Event | None]:
        over = False

        def ask() -> tuple[list[tuple[str, dict[str, str]]], bool]:
            found = self._recalled.streams.wait(("events", self.id), after, 0 if over else idle_seconds)
            # The end may have been trimmed, or the job may have expired meanwhile.
            return found, not found and self._has_ended(told=over)

        for answer in follow(self._outage, ask, min(_AWAY_SECONDS, idle_seconds)):
            found, ended = answer or ([], False)
            if ended:
                return
            over = over and (bool(found) or answer is None)
            if not found:
                yield None
            for after, fields in found:
                event = read_event(after, fields)
                yield event
                # A later message to its root may have continued it.
                over = event.kind == "job_ended"

    def _look(self) -> JobView:
        """The job's current state. Raises `JobLost` if it is missing."""
        try:
            return self.view()
        except UnknownAgent as error:
            raise JobLost(self.id) from error

    def _has_ended(self, *, told: bool = False) -> bool:
        """Whether the job has ended, or has expired after its end was reported (`told`). Raises `JobLost`."""
        try:
            return self.view().ended
        except UnknownAgent as error:
            if told:
                return True
            raise JobLost(self.id) from error

    def wait(self, timeout_seconds: float | None = None) -> JobView:
        """Wait for the end and return the finished job. Raises `TimeoutError`; the job continues then."""
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        bell = threading.Event()

        def ask() -> JobView:
            bell.wait(max(0.0, min(LOOK_SECONDS, deadline - time.monotonic())))
            bell.clear()
            self._swarm.ends.check()
            return self._look()

        with self._swarm.ends.watching(self.id, bell.set):
            for view in follow(self._outage, ask, _AWAY_SECONDS):
                if view is not None and view.ended:
                    return view
                if time.monotonic() >= deadline:
                    break
        raise TimeoutError(f"job {self.id} has not ended within {timeout_seconds} s; it continues")

    def deliver(self, to: str, text: str, *, reply_to: str = "", token: str = "") -> Delivery:
        """Send like `send`, and return who did and did not get the message. Raises `BeyondCeiling` as `Swarm.hold_job` does."""
        self._swarm.hold_job(self.id)
        return super().deliver(to, text, reply_to=reply_to, token=token)

    def board(self) -> list[TaskView]:
        """The tasks of the job's board, by number."""
        return self._board.tasks()

    def task_texts(self) -> dict[int, TaskTexts]:
        """Descriptions, results and notes of all board tasks, by number."""
        return self._board.texts([task.number for task in self._board.tasks()])

    def pad(self) -> list[PadPage]:
        """The pages of the job's scratchpad, by name."""
        return self._pad.pages()

    def page(self, name: str) -> tuple[PadPage, str]:
        """One page of the scratchpad and its text. Raises `PadRefused`."""
        return self._pad.read(name)

    def work(self) -> Work:
        """The job's file changes, if it works on a copy of its workspace. Raises `NoWork`, `GitFailed`."""
        return self._swarm.work(root_agent_id(self.id))

    def cancel(self, reason: str = "cancelled by a person", *, by: str = USER) -> None:
        """Cancel the job with every agent, at once and for good. `by` names the author."""
        self._swarm.cancel(root_agent_id(self.id), reason, by=by)

    @property
    def _board(self) -> Board:
        from swarm.capabilities.team.board import Board

        return Board(self._recalled.keyspace, self.id)

    @property
    def _pad(self) -> Pad:
        from swarm.capabilities.team.scratchpad import Pad

        return Pad(self._recalled.keyspace, self.id)
