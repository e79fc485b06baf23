"""Run one job from submission to end, with the local processes it needs; used by `run` and `demo`.

Guarantee: however the command ends (done, failed, Ctrl-C, SIGTERM), the processes it started are stopped, or kept for some minutes if
the job has ended. A job that was not cancelled stays durably on the queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from swarm.cli.display import Display, StreamDisplay, watch
from swarm.cli.interrupts import Interrupts, Terminated
from swarm.cli.live_editor import Left, choose_talking, read_line
from swarm.cli.notifications import Notifier, read_command
from swarm.cli.order_options import Here
from swarm.cli.output import message_console, one_line, print_note, show_time
from swarm.cli.patience import said
from swarm.cli.prompter import Prompter, open_terminal
from swarm.cli.sent_files import hold_secrets
from swarm.cli.trust import asking_at, hold_unguarded
from swarm.cli.work import bring_home, tell_push
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError, JobLost, MessageRefused, SwarmError, UnknownAgent
from swarm.core.records import AgentView, JobView
from swarm.core.settings import Settings
from swarm.local.job_stack import JobStack, job_stack
from swarm.local.processes import tail_log
from swarm.local.records import load_records
from swarm.local.stack import StackStatus, has_worker, status
from swarm.models.connection import explain_missing
from swarm.runtime.scratch import remove_scratch
from swarm.streaming.live.reader import LiveReader

if TYPE_CHECKING:
    from swarm.rehearsal.server import RehearsalServer

Deliver = Callable[[JobView, Sequence[AgentView]], None]
AT_LIMIT = 4
_SHOWN_PROBLEMS = 5


class WorkerLost(SwarmError):
    """No worker is left to run the watched job."""


@dataclass(frozen=True)
class Launch:
    """An order, and the way to carry it out on this machine."""

    order: Order
    here: Here
    stream: bool = False
    """Print one JSON line per event."""
    notify: str | None = None
    """A command that is notified of open questions and of the end."""
    converse: bool = False
    """Read the person's next message after each answer."""
    applies: bool = True
    """Apply the work of a copy to the folder after the end."""
    home: Path | None = None
    """A folder in place of the person's home: its settings, servers, hooks and definitions."""


def run_job(launch: Launch, settings: Settings, deliver: Deliver) -> int:
    """Put the job on the queue, show it, pass its end to `deliver`, and return the exit code."""
    words = None if launch.notify is None else read_command(launch.notify)
    with contextlib.ExitStack() as cleanup:
        terminal = open_terminal(cleanup)
        # Checked before anything is started.
        prepared = prepare_order(launch.order, settings, trust=asking_at(terminal, settings), home=launch.home)
        hold_unguarded(prepared, terminal, settings)
        hold_secrets(prepared, terminal, settings)
        if launch.here.rehearse is None:
            require_credentials(settings)
        interrupts = cleanup.enter_context(Interrupts())
        server = None
        if launch.here.rehearse is not None:
            from swarm.rehearsal.scenario import load_scenario
            from swarm.rehearsal.server import RehearsalServer

            server = cleanup.enter_context(RehearsalServer(load_scenario(launch.here.rehearse)))
        cleanup.callback(remove_scratch, settings)
        stack = cleanup.enter_context(_stack(launch, settings, prepared.spec.job_id))
        # From here on, a second Ctrl-C does not interrupt the cleanup.
        cleanup.callback(interrupts.disarm)
        swarm = Swarm(settings, tell=print_note)
        with interrupts.held():
            # Without a terminal no person can answer.
            if terminal is None and launch.order.ask_seconds is None:
                prepared = replace(prepared, ask_seconds=0.0)
            if server is not None:
                prepared = prepared.asking(server.url)
            job = place(swarm, prepared)
        swarm = swarm.outlasting(job.id)
        watching = _Watching(swarm, Job(swarm, job.id), settings, stack.status, launch, interrupts, terminal)
        if words is not None:
            watching.notifier = Notifier(watching.job, swarm.questions, words, f"swarm:{settings.key_prefix}")
            cleanup.callback(watching.notifier.close)
        code = watching.run(deliver)
        # After an interrupt the stack ends; after an answer another command is likely, so it is kept.
        stack.keep = code in (0, 1, AT_LIMIT)
        if server is not None:
            _report_problems(server)
        return code


def exit_code(view: JobView) -> int:
    """The exit code for an ended job; a limit that stopped it has its own code."""
    if view.stopped_at or view.state == "timed_out":
        return AT_LIMIT
    return 0 if view.state == "completed" else 1


def place(swarm: Swarm, prepared: PreparedJob) -> Job:
    """Put the job on the queue, and print problems of the settings files."""
    job = swarm.place(prepared)
    for warning in job.warnings:
        print_note(f"note: {warning}")
    return job


# -- what a job needs --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _stack(launch: Launch, settings: Settings, job_id: str) -> Iterator[JobStack]:
    with contextlib.ExitStack() as cleanup:
        with _busy("getting workers ready", launch):
            stack = cleanup.enter_context(job_stack(settings, job_id, concurrency=launch.here.concurrency))
        if launch.here.rehearse is not None and not stack.status.workers and not launch.here.quiet:
            print_note("note: workers on other machines cannot reach this machine's rehearsal server")
        try:
            yield stack
        finally:
            with _busy("stopping the processes started for this job", launch):
                cleanup.close()
            if stack.newly_kept and not launch.here.quiet:
                kept = show_time(settings.keep_seconds)
                print_note(f"note: the local stack stays up for {kept} for the next `swarm run`; `swarm down` ends it")


@contextlib.contextmanager
def _busy(what: str, launch: Launch) -> Iterator[None]:
    """Show the current action on a terminal, and erase the line afterwards."""
    console = None if launch.here.quiet else message_console()
    if console is None:
        yield
    elif not console.is_terminal or console.is_dumb_terminal:
        with said(what):
            yield
    else:
        with console.status(what):
            yield


def _report_problems(server: RehearsalServer) -> None:
    unmatched = server.stats()["unmatched"]
    for request in unmatched[:_SHOWN_PROBLEMS]:
        print_note(
            f"the scenario {server.scenario.name} has no reply for turn {request['turn']} of {request['definition']}: "
            f"{one_line(request['last_result'] or request['last_text'] or request['prompt'])}"
        )
    if len(unmatched) > _SHOWN_PROBLEMS:
        print_note(f"… and for {len(unmatched) - _SHOWN_PROBLEMS} more requests")


# -- watching ----------------------------------------------------------------------------------------------


@dataclass
class _Watching:
    swarm: Swarm
    job: Job
    settings: Settings
    stack: StackStatus
    launch: Launch
    interrupts: Interrupts
    terminal: TextIO | None
    notifier: Notifier | None = None
    _spoken_at: str = "0"
    """Event after which the reactions to the person's last message follow."""

    def run(self, deliver: Deliver) -> int:
        """Watch the job, deliver its end, and return the exit code."""
        display, after = self._choose_display(), "0"
        prompter = None if self.terminal is None else Prompter(self.swarm, self.terminal, self.interrupts)
        try:
            while True:
                try:
                    hear = None if self.notifier is None else self.notifier.hear
                    view = watch(self.job, display, self._check, prompter, after=after, hear=hear)
                    if not self.launch.converse:
                        break
                    self._finish(display, view, deliver)
                    if not self._talk_on():
                        return exit_code(view)
                    after = self._spoken_at
                except Left:
                    display.pause()
                    self._say_how_it_goes_on()
                    return 0
                except KeyboardInterrupt:
                    display.pause()
                    code = self._obey(display, deliver)
                    if code is not None:
                        return code
                    if prompter is not None:
                        prompter.put_back()
                    self.interrupts.arm()
        except UnknownAgent as error:
            raise JobLost(self.job.id) from error
        except Terminated:
            display.pause()
            with contextlib.suppress(OSError):  # the terminal may be gone
                self._say_how_it_goes_on()
            raise
        finally:
            display.pause()
        self.interrupts.disarm()
        self._finish(display, view, deliver)
        return exit_code(view)

    def _obey(self, display: Display, deliver: Deliver) -> int | None:
        """Ask the interrupting person what to do, and do it. Returns the exit code, None to continue."""
        match self._ask():
            case "resume":
                return None
            case "detach":
                self._say_how_it_goes_on()
                return 130
        self.job.cancel("interrupted by a person")
        view = self.job.view()
        self._finish(display, view, deliver)
        # The job may have ended during the question.
        return 0 if view.state == "completed" else 130

    def _choose_display(self) -> Display:
        if self.launch.stream:
            return StreamDisplay(self.swarm, self.job, quiet=self.launch.here.quiet)
        terminal = self.terminal if self.launch.converse else None
        return choose_talking(self.swarm, self.job, terminal, quiet=self.launch.here.quiet)

    def _talk_on(self) -> bool:
        """Send the person's next message; False if there is none."""
        assert self.terminal is not None
        with contextlib.suppress(KeyboardInterrupt):
            while line := read_line(self.terminal, "\nyour turn (Ctrl-D ends):"):
                self._spoken_at = LiveReader(self.swarm.store).last_event(self.job.id)
                try:
                    self.job.send("root", line)
                    return True
                except MessageRefused as error:
                    print_note(f"not sent: {error}")
        return False

    def _finish(self, display: Display, view: JobView, deliver: Deliver) -> None:
        display.close()
        deliver(view, self.job.agents())
        if not self.launch.applies:
            return
        if self.launch.order.repo is None:
            bring_home(self.job, completed=view.state == "completed", quiet=self.launch.here.quiet)
        else:
            tell_push(view)

    def _check(self) -> None:
        """Raise if this machine's workers for the job are gone, or if none can use the model."""
        ours = [worker for worker in self.stack.workers if worker.only_job in (None, self.job.id)]
        if ours and (lack := self.job.find_unmet()):
            raise WorkerLost(f"no worker can run {self.job.id}: {lack}. It stays queued until one can: `swarm up`")
        if ours and not any(worker.only_job in (None, self.job.id) for worker in status(self.settings).workers):
            log = ours[0].log
            raise WorkerLost(
                f"the worker that ran {self.job.id} has ended; `swarm up` starts one, and the job continues. "
                f"The end of its log {log}:\n{tail_log(log)}"
            )

    def _ask(self) -> str:
        """Ask how to handle a Ctrl-C. Without a person, cancel the job."""
        if self.terminal is None:
            return "cancel"
        question = (
            f"{self.job.id} is running. [c]ancel it (Ctrl-C again does, too), "
            f"[d]etach ({self._after_detaching()}), [r]esume watching?"
        )
        while True:
            try:
                # Armed before the question, because the answer may be an immediate Ctrl-C.
                self.interrupts.arm()
                print_note(question)
                answer = self.terminal.readline()
                self.interrupts.disarm()
            except KeyboardInterrupt:
                return "cancel"
            if not answer:
                return "detach"
            for choice in ("cancel", "detach", "resume"):
                if answer.strip().lower() and choice.startswith(answer.strip().lower()):
                    return choice
            question = "c, d or r?"

    def _after_detaching(self) -> str:
        if self.launch.here.rehearse is not None:
            return "its rehearsed model ends with this command, so the job will fail when it resumes"
        if any(record.temporary for record in load_records(self.settings)):
            return "the local stack stops; the job continues after `swarm up`"
        return "the job continues"

    def _say_how_it_goes_on(self) -> None:
        print_note(f"detached from {self.job.id}: {self._after_detaching()}. See it with `swarm tree {self.job.id}`.")


def require_credentials(settings: Settings) -> None:
    """Raise `ConfigurationError` if workers started here would have no key; running workers have theirs."""
    missing = explain_missing(settings)
    if not missing or (settings.provider == "anthropic" and has_worker(settings)):
        return
    without = ", or try `swarm demo`, which needs none" if settings.provider == "anthropic" else ""
    raise ConfigurationError(f"{missing}{without}")
