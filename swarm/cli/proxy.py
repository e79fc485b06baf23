"""`swarm proxy`: a model's server for a person's own program, with the team's key and a budget."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from typing import Annotated

import typer

from swarm.capabilities.harnesses.alone import LONE, LoneGateway
from swarm.cli.output import print_line, print_note, show_cost
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Swarm
from swarm.core.errors import AgentCancelled, ConfigurationError, NotOwner
from swarm.core.ids import new_job_id
from swarm.core.records import Limits
from swarm.core.settings import Settings, load_settings
from swarm.models.catalogue import resolve_model
from swarm.models.router import AnyModel
from swarm.models.vendors import split_model
from swarm.runtime.segment import Segment, Stop
from swarm.store.values import Claim


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
    over = threading.Event()
    codes: list[int] = []

    def begin() -> None:
        _begin(lone, command or [], over, codes)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    try:
        finished = lone.serve(port, worker, begin, over)
    except OSError as error:
        raise ConfigurationError(f"port {port} cannot be used: {error.strerror}") from error
    except (AgentCancelled, NotOwner):
        print_note("the job has ended: nothing more is served")
        raise typer.Exit(1) from None
    view = swarm.job(lone.job_id).view()
    print_note(f"{view.id}: {view.usage.total_tokens:,} tokens, {show_cost(view.cost_usd, view.unpriced_tokens)}")
    if finished.reason:
        print_note(finished.reason)
    raise typer.Exit(codes[0] if codes else 0)


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


def _begin(lone: LoneGateway, command: list[str], over: threading.Event, codes: list[int]) -> None:
    url, token = f"http://127.0.0.1:{lone.gateway.port}", lone.gateway.token
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": token,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": token,
    }
    if not command:
        for name, value in variables.items():
            print_line(f"export {name}={value}")
        print_note("serving; Ctrl-C ends it")
        return

    def run() -> None:
        try:
            codes.append(subprocess.run(command, env={**os.environ, **variables}).returncode)
        except OSError as error:
            print_note(f"{command[0]} cannot be started: {error.strerror}")
            codes.append(127)
        over.set()

    threading.Thread(target=run, name="proxy-command", daemon=True).start()
