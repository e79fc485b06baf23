"""`swarm map`: the same order for each line of a list, and `swarm map --resume`: going on with one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.capabilities.mapping.lines import Format, Line, check_lines, read_lines
from swarm.cli.completing import complete_model, complete_scenario, complete_type
from swarm.cli.interrupts import Interrupts, Terminated
from swarm.cli.launch import WorkerLost, prepare_trusted, require_credentials
from swarm.cli.map_output import ResultFile, check_new
from swarm.cli.map_watching import say_how_it_goes_on, shown_progress, tell_end, write_results
from swarm.cli.options import (
    AllowOption,
    DenyOption,
    ModeOption,
    NetworkOption,
    WorkspaceOption,
    parse_duration,
    read_schema,
)
from swarm.cli.output import print_line, print_note
from swarm.cli.patience import said
from swarm.cli.prompting import open_terminal
from swarm.client.maps import DEFAULT_AT_ONCE, MAX_RETRIES, PATIENT_AGENT, Map, check_bounds, fill_prompts, place_map
from swarm.client.orders import Order
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings, load_settings
from swarm.local.stack import running, status, temporary_stack
from swarm.rehearsal.scenario import load_scenario
from swarm.rehearsal.server import RehearsalServer

MAX_INPUT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class _Bounds:
    max_running: int | None
    retries: int
    budget_usd: float | None


def map_lines(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="What is to be done with each line: {path} (any name) stands for it, or for that field of JSON lines.",
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="""A shell command that prints the lines: 'git ls-files "*.py"'."""),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="A file of lines; -, or nothing: what is piped in.")
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--lines", help="text: lines as they are; json: objects, whose fields the prompt can name."),
    ] = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Append results here; --resume goes on with what is there."
        ),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="MAP", help="Go on with this map, and write what is not in the output.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: try the lines again that failed.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            "-a",
            metavar="TYPE",
            help="Type of each line's agent.",
            autocompletion=complete_type,
            show_default="build; with --patient answer",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model of each line's agent.", autocompletion=complete_model)
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON schema: each result must be valid for it.")
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Lines at work at once.", show_default=str(DEFAULT_AT_ONCE))
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, max=MAX_RETRIES, help="How often a line that failed is tried again.")
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Once so much is spent, no further line begins.", show_default="none"),
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Turns of each agent.", show_default="30")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=0, max=64, help="How deep agents may nest.", show_default="2")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(parser=parse_duration, metavar="TIME", help="Time for each line.", show_default="none"),
    ] = None,
    patient: Annotated[
        bool,
        typer.Option(
            "--patient",
            help="Send the lines by the batch API: half the price, within an hour mostly. Only what takes one request and no tool.",
        ),
    ] = False,
    workspace: WorkspaceOption = Path(),
    mode: ModeOption = None,
    allow: AllowOption = None,
    deny: DenyOption = None,
    network: NetworkOption = False,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the map is called in lists.", show_default="the prompt")
    ] = None,
    priority: Annotated[
        int, typer.Option(min=1, max=100, help="Turns each line has on the fleet where other jobs have one.")
    ] = 1,
    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Play a scenario instead of asking a model: a name or a file.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Agents at once on the worker that is started for this map.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start the map and print its id.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Do the same with each line of a list, a job for each, and print what came of it as JSON lines.

    Lines come from --over, --from or a pipe. The map is durable: whatever ends this command (Ctrl-C, a crash), it goes on where
    there are workers, and `swarm map --resume MAP` goes on writing what is not yet in the output. Only lines that were done are
    written, each once; what failed is listed at the end.
    Exit code: 0 all lines done, 1 some failed, 2 wrong usage, 3 Redis has lost the map, 4 its money is spent, 130 interrupted.
    """
    settings, bounds = load_settings(), _Bounds(max_running, retries, budget)
    if resume is not None:
        if prompt is not None or over is not None or source is not None or rehearse is not None or detach:
            raise typer.BadParameter(
                "a map that goes on has its lines already; name only what it is written to", param_hint="--resume"
            )
        require_credentials(settings)
        with _workers(settings, concurrency, quiet=quiet) as interrupts:
            swarm = Swarm(settings, tell=print_note)
            code = _resume(swarm, resume, bounds, output, interrupts, retry_failed=retry_failed, quiet=quiet)
        raise typer.Exit(code)
    if prompt is None:
        raise typer.BadParameter("say what is to be done with each line, as in 'Review {path}'", param_hint="PROMPT")
    if detach and rehearse is not None:
        raise typer.BadParameter("a rehearsal ends with this command, so it cannot go with --detach")
    check_bounds(max_running or 1, retries, budget)
    check_new(output)
    given: dict[str, Any] = {
        "max_turns": max_turns,
        "max_depth": max_depth,
        "timeout_seconds": timeout,
        "budget_usd": budget,
    }
    lines = check_lines(_read_lines(over, source, form, workspace))
    prompts = fill_prompts(prompt, lines)
    order = Order(
        prompt=prompts[0],
        agent=agent or (PATIENT_AGENT if patient else DEFAULT_AGENT),
        patient=patient,
        model=model,
        workspace=workspace,
        limits=Limits(**{name: value for name, value in given.items() if value is not None}),
        mode=mode,
        allow=allow or (),
        deny=deny or (),
        network=network,
        ask_seconds=0.0,
        result_schema=None if schema is None else read_schema(schema),
        priority=priority,
    )
    making = _Making(settings, order, lines, prompts, title or prompt, bounds)
    if detach:
        print_line(_detached(making).id)
        return
    raise typer.Exit(_run(making, output, rehearse, concurrency, quiet=quiet))


@dataclass(frozen=True)
class _Making:
    """A map that is about to be made."""

    settings: Settings
    order: Order
    lines: list[Line]
    prompts: list[str]
    title: str
    bounds: _Bounds

    def make(self, swarm: Swarm, *, base_url: str | None = None) -> Map:
        """Make it, once the person has said what they trust."""
        with contextlib.ExitStack() as opened:
            prepared = prepare_trusted(self.order, self.settings, open_terminal(opened))
        if base_url is not None:
            prepared = replace(prepared, spec=prepared.spec.model_copy(update={"base_url": base_url}))
        made = place_map(
            swarm,
            prepared,
            self.lines,
            self.prompts,
            title=self.title,
            max_running=self.bounds.max_running,
            retries=self.bounds.retries,
            budget_usd=self.bounds.budget_usd,
        )
        for warning in made.warnings:
            print_note(f"note: {warning}")
        return made


def _detached(making: _Making) -> Map:
    settings = making.settings
    if settings.redis_url is None and not running(settings):
        raise ConfigurationError("nobody would run the map: start a worker with `swarm up`, or leave --detach away")
    if settings.redis_url is None:
        require_credentials(settings)
    return making.make(Swarm(settings))


def _run(making: _Making, output: Path | None, rehearse: str | None, concurrency: int | None, *, quiet: bool) -> int:
    with contextlib.ExitStack() as cleanup:
        if rehearse is None:
            require_credentials(making.settings)
        server = None if rehearse is None else cleanup.enter_context(RehearsalServer(load_scenario(rehearse)))
        interrupts = cleanup.enter_context(_workers(making.settings, concurrency, quiet=quiet))
        swarm = Swarm(making.settings, tell=print_note)
        with interrupts.held():
            made = making.make(swarm, base_url=None if server is None else server.url)
        return _watch(swarm, made, output, interrupts, resumed=False, quiet=quiet)


def _resume(
    swarm: Swarm,
    map_id: str,
    bounds: _Bounds,
    output: Path | None,
    interrupts: Interrupts,
    *,
    retry_failed: bool,
    quiet: bool,
) -> int:
    made = swarm.find_map(map_id)
    if not made.view().ended or bounds.max_running or bounds.budget_usd:
        made.go_on(max_running=bounds.max_running, budget_usd=bounds.budget_usd)
    if retry_failed:
        made.retry()
    return _watch(swarm, made, output, interrupts, resumed=True, quiet=quiet)


def _watch(swarm: Swarm, made: Map, output: Path | None, interrupts: Interrupts, *, resumed: bool, quiet: bool) -> int:
    ours = bool(status(swarm.settings).workers)

    def check() -> None:
        if ours and not status(swarm.settings).workers:
            raise WorkerLost(f"the worker that ran {made.id} has ended; {say_how_it_goes_on(file)}")

    with ResultFile(made.id, output, resumed=resumed) as file:
        view = made.view()
        if not quiet:
            print_note(
                f"{made.id}: {view.total} lines, {view.max_running} at once; if this ends: {say_how_it_goes_on(file)}"
            )
        try:
            with shown_progress(view, quiet=quiet) as progress:
                write_results(made, file, progress, check)
        except (KeyboardInterrupt, Terminated):
            interrupts.disarm()
            view = made.view()
            after = "it goes on where there are workers" if not ours else "it goes on once there are workers again"
            with contextlib.suppress(OSError):
                print_note(
                    f"{made.id}: {view.completed} of {view.total} lines are done, and {after}. {say_how_it_goes_on(file)}"
                )
            raise
        return tell_end(made, file)


@contextlib.contextmanager
def _workers(settings: Settings, concurrency: int | None, *, quiet: bool) -> Iterator[Interrupts]:
    """Workers for the time of the command, unless there are some."""
    with contextlib.ExitStack() as cleanup:
        interrupts = cleanup.enter_context(Interrupts())
        with said("getting workers ready") if not quiet else contextlib.nullcontext():
            cleanup.enter_context(temporary_stack(settings, concurrency=concurrency))
        # From here on, cleaning up is not interrupted by an impatient second Ctrl-C.
        cleanup.callback(interrupts.disarm)
        yield interrupts


def _read_lines(over: str | None, source: str | None, form: Format, workspace: Path) -> list[Line]:
    if over is not None and source is not None:
        raise typer.BadParameter("lines come from a command or from a file, not from both", param_hint="--over, --from")
    if over is not None:
        return read_lines(_run_command(over, workspace), form, source=f"what {over!r} prints")
    if source not in (None, "-"):
        try:
            data = Path(str(source)).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from None
        return read_lines(_decode(data, str(source)), form, source=str(source))
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter("give lines with --over COMMAND or --from FILE, or pipe them in", param_hint="--over")
    return read_lines(_decode(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), "what is piped in"), form)


def _run_command(command: str, workspace: Path) -> str:
    if not workspace.is_dir():
        raise ConfigurationError(f"the workspace {workspace} is not a folder; name one that exists with --workspace")
    ran = subprocess.run(command, shell=True, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True)
    if ran.returncode:
        told = " ".join(ran.stderr.decode(errors="replace").split())[-500:]
        raise ConfigurationError(f"--over: {command!r} ended with {ran.returncode}: {told or 'it said nothing'}")
    return _decode(ran.stdout, f"what {command!r} prints")


def _decode(data: bytes, what: str) -> str:
    if len(data) > MAX_INPUT_BYTES:
        raise ConfigurationError(f"{what} has more than {MAX_INPUT_BYTES // 1024 // 1024} MiB; give it to several maps")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what} is not UTF-8 text; write it in UTF-8") from None
