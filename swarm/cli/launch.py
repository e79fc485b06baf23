"""Running one job from its submission to its end, with whatever it needs on this machine, for `run` and `demo`.

Guarantee: however the command ends (done, failed, Ctrl-C, SIGTERM), what it started is stopped, and a job that was not cancelled
stays on the queue, durable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from swarm.cli.credentials import require_credentials
from swarm.cli.interrupts import Interrupts, Terminated
from swarm.cli.output import message_console, one_line, print_note
from swarm.cli.prompting import Prompter, open_terminal
from swarm.cli.watching import Display, choose_display, watch
from swarm.errors import ConfigurationError, SwarmError

if TYPE_CHECKING:
    from swarm.client import Job, Swarm
    from swarm.local.stack import StackStatus
    from swarm.rehearsal import RehearsalServer
    from swarm.settings import Settings
    from swarm.views import AgentView, JobView

Deliver = Callable[["JobView", "Sequence[AgentView]"], None]
_SHOWN_PROBLEMS = 5


class WorkerLost(SwarmError):
    """Nobody is left to run the job that is being watched."""


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    prompt: str
    agent: str = "build"
    workspace: Path = field(default_factory=Path)
    model: str | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    """The limits that were given; the others have their defaults."""
    scenario: str | None = None
    """A rehearsal to play instead of asking a model."""
    concurrency: int | None = None
    """Processes of a worker that has to be started."""
    quiet: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `Swarm.submit`: what was said about permissions, and the form of the answer."""


def run_order(order: Order, settings: Settings, deliver: Deliver) -> int:
    """Submit the job, show it, hand its end to `deliver`, and answer the exit code."""
    from swarm.client import Swarm

    check_order(order)
    if order.scenario is None:
        require_credentials(settings)
    with contextlib.ExitStack() as cleanup:
        interrupts = cleanup.enter_context(Interrupts())
        server = cleanup.enter_context(_rehearsal(order)) if order.scenario is not None else None
        stack = cleanup.enter_context(_stack(order, settings))
        # From here on, cleaning up is not interrupted by an impatient second Ctrl-C.
        cleanup.callback(interrupts.disarm)
        swarm = Swarm(settings)
        terminal = open_terminal(cleanup)
        with interrupts.held():
            # Without a terminal nobody is there who could be asked.
            patience = (
                {} if terminal is not None or order.options.get("ask_seconds") is not None else {"ask_seconds": 0.0}
            )
            job = submit(swarm, order, server.url if server else None, **patience)
        watching = _Watching(swarm, job, settings, stack, order, interrupts, terminal)
        code = watching.run(deliver)
        if server is not None:
            _report_problems(server)
        return code


def check_order(order: Order) -> None:
    """Refuse what cannot run before anything is started for it."""
    from swarm.client import MAX_PROMPT_BYTES
    from swarm.definitions.catalogue import load_catalogue

    try:
        size = len(order.prompt.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("the prompt is not UTF-8 text; write it in UTF-8") from None
    if size > MAX_PROMPT_BYTES:
        raise ConfigurationError("the prompt has more than 4096 KiB; put it into a file of the workspace and name that")
    if not order.prompt.strip():
        raise ConfigurationError("the prompt is empty; say what is to be done")
    folder = order.workspace.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"the workspace {folder} is not a folder; name one that exists with --workspace")
    load_catalogue(folder).get(order.agent)
    from swarm.permissions.rules import Action, parse_rule

    # In a settings file it would be a problem among others; whoever types a rule wants it to hold.
    actions: tuple[Action, ...] = ("allow", "ask", "deny")
    for action in actions:
        for entry in order.options.get(action, ()):
            parse_rule(entry, action, "the command line")


def submit(swarm: Swarm, order: Order, base_url: str | None = None, **options: Any) -> Job:
    """Put the job on the queue, and say what of the settings files could not be used; `options` go before the order's."""
    from swarm.agent.spec import Limits

    job = swarm.submit(
        order.prompt,
        agent=order.agent,
        workspace=order.workspace,
        limits=Limits(**order.limits),
        model=order.model,
        base_url=base_url,
        **{**order.options, **options},
    )
    for warning in job.warnings:
        print_note(f"note: {warning}")
    return job


# -- what a job needs --------------------------------------------------------------------------------------


def _rehearsal(order: Order) -> RehearsalServer:
    from swarm.rehearsal import RehearsalServer, load_scenario

    assert order.scenario is not None
    return RehearsalServer(load_scenario(order.scenario))


@contextlib.contextmanager
def _stack(order: Order, settings: Settings) -> Iterator[StackStatus]:
    from swarm.local.stack import temporary_stack

    with contextlib.ExitStack() as cleanup:
        with _busy("getting workers ready", order):
            status = cleanup.enter_context(temporary_stack(settings, concurrency=order.concurrency))
        if not order.quiet and any(worker.temporary for worker in status.workers):
            _hint_at_others(settings)
        if order.scenario is not None and not status.workers and not order.quiet:
            print_note("note: the rehearsal's server is on this machine; workers on other machines cannot reach it")
        try:
            yield status
        finally:
            with _busy("stopping what was started for this job", order):
                cleanup.close()


def _hint_at_others(settings: Settings) -> None:
    """Say which earlier jobs the workers that are there now take up as well."""
    from swarm.client import Swarm

    others = [job.id for job in Swarm(settings).jobs(20) if not job.ended]
    if others:
        shown = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
        print_note(f"note: earlier jobs go on as well: {shown}; `swarm cancel JOB` ends one")


@contextlib.contextmanager
def _busy(what: str, order: Order) -> Iterator[None]:
    """Say on a terminal what takes its time just now, and wipe it afterwards."""
    console = None if order.quiet else message_console()
    if console is None or not console.is_terminal or console.is_dumb_terminal:
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


# -- until it ends -----------------------------------------------------------------------------------------


@dataclass
class _Watching:
    swarm: Swarm
    job: Job
    settings: Settings
    stack: StackStatus
    order: Order
    interrupts: Interrupts
    terminal: TextIO | None

    def run(self, deliver: Deliver) -> int:
        """Watch, deliver, and answer the exit code."""
        display = choose_display(self.swarm, self.job, quiet=self.order.quiet)
        prompter = None if self.terminal is None else Prompter(self.swarm, self.terminal, self.interrupts)
        try:
            while True:
                try:
                    view = watch(self.job, display, self._check, prompter)
                    break
                except KeyboardInterrupt:
                    display.pause()
                    match self._ask():
                        case "resume":
                            if prompter is not None:
                                prompter.put_back()
                            self.interrupts.arm()
                        case "detach":
                            self._say_how_it_goes_on()
                            return 130
                        case _:
                            self.job.cancel("interrupted by a person")
                            view = self.job.view()
                            self._finish(display, view, deliver)
                            # It may have ended while the person was thinking.
                            return 0 if view.state == "completed" else 130
        except Terminated:
            display.pause()
            with contextlib.suppress(OSError):  # the terminal may be gone
                self._say_how_it_goes_on()
            raise
        finally:
            display.pause()
        self.interrupts.disarm()
        self._finish(display, view, deliver)
        return 0 if view.state == "completed" else 1

    def _finish(self, display: Display, view: JobView, deliver: Deliver) -> None:
        display.close()
        deliver(view, self.job.agents())

    def _check(self) -> None:
        """Raise if the workers that this machine runs for the job are gone."""
        from swarm.local.processes import tail_log
        from swarm.local.stack import status

        if self.stack.workers and not status(self.settings).workers:
            log = self.stack.workers[0].log
            raise WorkerLost(
                f"the worker that ran {self.job.id} has ended; `swarm up` starts one, and the job goes on. "
                f"The end of its log {log}:\n{tail_log(log)}"
            )

    def _ask(self) -> str:
        """What to do about a Ctrl-C. Without a person to ask, the job is cancelled."""
        if self.terminal is None:
            return "cancel"
        question = (
            f"{self.job.id} is running. [c]ancel it (Ctrl-C again does, too), "
            f"[d]etach ({self._after_detaching()}), [r]esume watching?"
        )
        while True:
            try:
                # Armed before it asks: the answer may be a Ctrl-C that comes at once.
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
        if self.order.scenario is not None:
            return "its rehearsed model ends with this command, so the job will fail once it is taken up again"
        if self._stack_goes():
            return "the local stack stops; the job goes on after `swarm up`"
        return "the job goes on"

    def _stack_goes(self) -> bool:
        from swarm.local.records import load_records

        return any(record.temporary for record in load_records(self.settings))

    def _say_how_it_goes_on(self) -> None:
        print_note(f"detached from {self.job.id}: {self._after_detaching()}. See it with `swarm tree {self.job.id}`.")
