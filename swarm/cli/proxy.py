"""`swarm proxy`: a model's server for a person's own program, with the team's key and a budget."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Annotated

import typer

from swarm.capabilities.harnesses.alone import LONE, LoneGateway
from swarm.cli.output import print_line, print_note, show_cost
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Swarm
from swarm.core.errors import AgentCancelled, ConfigurationError, NotOwner, SwarmError
from swarm.core.ids import new_job_id
from swarm.core.records import Limits
from swarm.core.settings import Settings, load_settings
from swarm.models.catalogue import resolve_model
from swarm.models.router import AnyModel
from swarm.models.vendors import split_model
from swarm.runtime.segment import Segment, Stop
from swarm.store.values import Claim

_END_SECONDS = 10.0
"""How long a program that nothing is served to any more has for its end."""


def proxy(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="A program to run with the proxy, and its arguments.")
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0.01, help="The most that it may cost.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="An allowed model; repeat it. Default: main and small.")
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port of this machine's loopback.")] = 0,
    hours: Annotated[float, typer.Option(metavar="HOURS", min=0.01, help="How long it may serve.")] = 12.0,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the job.")] = "",
) -> None:
    """Serve models to your own coding agent, on the team's key and within a budget.

    The requests are a job: `swarm jobs`, `swarm cost` and `swarm cancel` know it, each is reserved in its budget before it is made,
    and the fleet's rate limits hold. The key stays here. `swarm proxy --budget 5 -- claude -p hello` runs Claude
    Code with it; without a command
    it prints the variables to set, and serves until Ctrl-C.
    """
    settings = load_settings()
    names = model or [settings.model, settings.small_model]
    models = _resolve(settings, names)
    swarm = Swarm(settings)
    lone, worker = _claim(swarm, models, Limits(budget_usd=budget, timeout_seconds=3_600 * hours), title, command or [])
    program = _ServedProgram(command or [])
    program.take_signals()
    try:
        finished = lone.serve(port, worker, lambda: _begin(lone, program), program.over)
    except (AgentCancelled, NotOwner):
        print_note("the job has ended: nothing more is served")
        raise typer.Exit(1) from None
    except BaseException as error:
        with suppress(SwarmError):
            swarm.job(lone.job_id).cancel(f"the proxy failed: {error}")
        if isinstance(error, OSError):
            raise ConfigurationError(f"port {port} cannot be used: {error.strerror}; give another --port") from error
        raise
    finally:
        program.end()
    view = swarm.job(lone.job_id).view()
    print_note(f"{view.id}: {view.usage.total_tokens:,} tokens, {show_cost(view.cost_usd, view.unpriced_tokens)}")
    if finished.reason:
        print_note(finished.reason)
    raise typer.Exit(program.code)


def _resolve(settings: Settings, names: list[str]) -> dict[str, str]:
    """Return the full ids of the allowed models, by every name that a program may use for them."""
    full = [
        resolve_model(name, default=settings.model, parent=None, prices_file=settings.prices_file) for name in names
    ]
    short = {found[1]: name for name in full if (found := split_model(name, settings.vendors)) is not None}
    return dict(zip(full, full, strict=True)) | short


def _claim(
    swarm: Swarm, models: dict[str, str], limits: Limits, title: str, command: list[str]
) -> tuple[LoneGateway, str]:
    """Make the job, and hold its only agent."""
    settings, first = swarm.settings, next(iter(models.values()))
    prompt = title or f"requests of {' '.join(command) or 'a program'} on {socket.gethostname()}"
    prepared = prepare_order(
        Order(prompt=prompt, title=title or None, model=first, limits=limits, home_workspace=True), settings
    )
    worker = f"proxy:{socket.gethostname()}:{os.getpid()}:{new_job_id()}"
    # No worker is called so: the agent is ours.
    spec = prepared.spec.model_copy(update={"definition": LONE, "host": worker, "files": None, "isolation": "none"})
    job = swarm.place(replace(prepared, spec=spec))
    claim = swarm.store.agents.claim(spec.agent_id, worker, settings.lease_seconds)
    if not isinstance(claim, Claim):
        raise ConfigurationError(f"{job.id} could not be taken: {claim.why}")
    segment = Segment(
        claim,
        swarm.store,
        settings,
        lambda effect: swarm.publish(effect) if effect else None,
        Stop(spec.agent_id),
        AnyModel(settings),
    )
    return LoneGateway(segment, models), worker


class _ServedProgram:
    """The person's program, if they have given one, and the signals to it."""

    def __init__(self, command: list[str]) -> None:
        self.command, self.code = command, 0
        self.over = threading.Event()
        """Set once nothing more is to be served."""
        self._process: subprocess.Popen[bytes] | None = None
        self._signal: int | None = None

    def take_signals(self) -> None:
        """Pass the signals that end programs on to the program; without one, they end the proxy."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # As with `nohup`.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.command:
            # Not here: the interrupted thread may hold the event's lock.
            threading.Thread(target=self.over.set, daemon=True).start()
        elif number != signal.SIGINT:  # the terminal sends that one to the program, too, which may go on
            self._signal = number
            if self._process is not None:
                self._process.send_signal(number)

    def start(self, variables: dict[str, str]) -> None:
        """Start it; `over` is set once it has ended."""
        try:
            self._process = subprocess.Popen(self.command, env={**os.environ, **variables})
        except OSError as error:
            print_note(f"{self.command[0]} cannot be started: {error.strerror}")
            self.code = 127
            return self.over.set()
        if self._signal is not None:
            self._process.send_signal(self._signal)
        threading.Thread(target=self._wait, name="proxy-command", daemon=True).start()

    def _wait(self) -> None:
        assert self._process is not None, "it has not been started"
        code = self._process.wait()
        # A shell says in the same way that a signal has ended it.
        self.code = code if code >= 0 else 128 - code
        self.over.set()

    def end(self) -> None:
        """End it, if it still runs: nothing is served to it any more."""
        if self._process is not None and not self.over.is_set():
            self._process.terminate()
            if not self.over.wait(_END_SECONDS):
                self._process.kill()
                self.over.wait()


def _begin(lone: LoneGateway, program: _ServedProgram) -> None:
    url, token = f"http://127.0.0.1:{lone.gateway.port}", lone.gateway.token
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": token,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": token,
    }
    if not program.command:
        for name, value in variables.items():
            print_line(f"export {name}={value}")
        return print_note("serving; Ctrl-C ends it")
    program.start(variables)
