"""`swarm map`: run an order once per line of a list; `--resume` continues a map."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.cli.interrupts import Interrupts, Terminated
from swarm.cli.launch import WorkerLost, require_credentials
from swarm.cli.map_output import ResultFile, check_new
from swarm.cli.map_progress import say_how_it_goes_on, shown_progress, tell_end, write_results
from swarm.cli.order_options import Here, order_options
from swarm.cli.output import print_line, print_note
from swarm.cli.patience import said
from swarm.cli.prompter import open_terminal
from swarm.cli.trust import asking_at
from swarm.client.maps import Map, place_map, prepare_map
from swarm.client.order import MapOrder, read_order
from swarm.client.preparation import find_workspace
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.lines import Format, Line, read_lines
from swarm.core.settings import Settings, load_settings
from swarm.local.stack import running, status, temporary_stack
from swarm.rehearsal.scenario import load_scenario
from swarm.rehearsal.server import RehearsalServer

MAX_INPUT_BYTES = 256 * 1024 * 1024


LEAVES_OUT = {
    "base_url": "--rehearse starts the server, too",
    "commands": "lines are not commands",
    "over": "--over, --from or a pipe",
}
"""Options of a map's order that the command lacks, each with the reason."""


@dataclass(frozen=True)
class LineSource:
    """Source of the map's lines."""

    over: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="""A shell command that prints the lines: 'git ls-files "*.py"'."""),
    ] = None
    source: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="A file of lines; -, or nothing: stdin.")
    ] = None
    form: Annotated[
        Format,
        typer.Option("--lines", help="text: lines as they are; json: objects, whose fields the prompt can name."),
    ] = "auto"


@order_options(MapOrder, LEAVES_OUT)
def map_lines(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="The task; {path} (any name) is the line, or a field of JSON lines.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Append results here; --resume continues the file."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="MAP", help="Continue this map, and write missing results.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="With --resume: retry failed lines.")] = False,
    *,
    source: LineSource,
    here: Here,
    **given: Any,
) -> None:
    """Run a job for each line of a list, and print the results as JSON lines.

    Lines come from --over, --from or a pipe. The map is durable: if this command ends (Ctrl-C, a crash), the map continues while there are
    workers, and `swarm map --resume MAP` writes the missing results. Only completed lines are written, each once; failures are listed at
    the end.
    Exit code: 0 all lines done, 1 some failed, 2 wrong usage, 3 Redis has lost the map, 4 budget spent, 130 interrupted.
    """
    settings = load_settings()
    if resume is not None:
        if prompt is not None or source != LineSource() or here.rehearse is not None or here.detach:
            raise typer.BadParameter("a resumed map has its lines already; give only --output", param_hint="--resume")
        bounds = {name: given.get(name) for name in ("max_running", "budget_usd")}
        raise typer.Exit(_resume(settings, resume, bounds, output, here, retry_failed=retry_failed))
    if prompt is None:
        raise typer.BadParameter("give the task for each line, as in 'Review {path}'", param_hint="PROMPT")
    if here.detach and here.rehearse is not None:
        raise typer.BadParameter("a rehearsal ends with this command, so --detach is not possible")
    check_new(output)
    if budget := given.get("budget_usd"):
        given["limits"] = {"budget_usd": budget, **given.get("limits", {})}
    order = read_order(MapOrder, prompt, (), **given)
    making = partial(_make, settings, replace(order, over=_read_lines(source, order.workspace)))
    if here.detach:
        print_line(_detached(making, settings).id)
        return
    raise typer.Exit(_run(making, settings, output, here))


Making = Callable[..., Map]


def _make(settings: Settings, order: MapOrder, swarm: Swarm, *, base_url: str | None = None) -> Map:
    """Create the map, after the person has decided about trust."""
    with contextlib.ExitStack() as opened:
        prepared = prepare_map(order, settings, trust=asking_at(open_terminal(opened), settings))
    if base_url is not None:
        prepared = replace(prepared, job=prepared.job.asking(base_url))
    made = place_map(swarm, prepared)
    for warning in made.warnings:
        print_note(f"note: {warning}")
    return made


def _detached(making: Making, settings: Settings) -> Map:
    if settings.redis_url is None and not running(settings):
        raise ConfigurationError("no worker would run the map: start one with `swarm up`, or omit --detach")
    if settings.redis_url is None:
        require_credentials(settings)
    return making(Swarm(settings))


def _run(making: Making, settings: Settings, output: Path | None, here: Here) -> int:
    with contextlib.ExitStack() as cleanup:
        if here.rehearse is None:
            require_credentials(settings)
            url = None
        else:
            url = cleanup.enter_context(RehearsalServer(load_scenario(here.rehearse))).url
        interrupts = cleanup.enter_context(workers_for(settings, here))
        swarm = Swarm(settings, tell=print_note)
        with interrupts.held():
            made = making(swarm, base_url=url)
        return _watch(swarm, made, output, interrupts, resumed=False, quiet=here.quiet)


def _resume(
    settings: Settings, map_id: str, bounds: dict[str, Any], output: Path | None, here: Here, *, retry_failed: bool
) -> int:
    require_credentials(settings)
    with workers_for(settings, here) as interrupts:
        swarm = Swarm(settings, tell=print_note)
        made = swarm.find_map(map_id)
        if not made.view().ended or any(bounds.values()):
            made.go_on(**bounds)
        if retry_failed:
            made.retry()
        return _watch(swarm, made, output, interrupts, resumed=True, quiet=here.quiet)


def _watch(swarm: Swarm, made: Map, output: Path | None, interrupts: Interrupts, *, resumed: bool, quiet: bool) -> int:
    ours = bool(status(swarm.settings).workers)

    def check() -> None:
        if ours and not status(swarm.settings).workers:
            raise WorkerLost(f"the worker that ran {made.id} has ended; {say_how_it_goes_on(file)}")

    with ResultFile(made.id, output, resumed=resumed) as file:
        view = made.view()
        if not quiet:
            print_note(
                f"{made.id}: {view.total} lines, {view.max_running} at once; if this command ends: {say_how_it_goes_on(file)}"
            )
        try:
            with shown_progress(view, quiet=quiet) as progress:
                write_results(made, file, progress, check)
        except (KeyboardInterrupt, Terminated):
            interrupts.disarm()
            view = made.view()
            after = "it continues while there are workers" if not ours else "it continues once there are workers again"
            with contextlib.suppress(OSError):
                print_note(
                    f"{made.id}: {view.completed} of {view.total} lines are done, and {after}. {say_how_it_goes_on(file)}"
                )
            raise
        return tell_end(made, file)


@contextlib.contextmanager
def workers_for(settings: Settings, here: Here) -> Iterator[Interrupts]:
    """Run workers during the command, unless there are some."""
    with contextlib.ExitStack() as cleanup:
        interrupts = cleanup.enter_context(Interrupts())
        with said("getting workers ready") if not here.quiet else contextlib.nullcontext():
            cleanup.enter_context(temporary_stack(settings, concurrency=here.concurrency))
        # From here on, a second Ctrl-C does not interrupt the cleanup.
        cleanup.callback(interrupts.disarm)
        yield interrupts


def _read_lines(given: LineSource, workspace: str | Path) -> list[Line]:
    over, source, form = given.over, given.source, given.form
    if over is not None and source is not None:
        raise typer.BadParameter("lines come from a command or from a file, not from both", param_hint="--over, --from")
    if over is not None:
        return read_lines(_run_command(over, find_workspace(workspace)), form, source=f"the output of {over!r}")
    if source not in (None, "-"):
        try:
            data = Path(str(source)).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from None
        return read_lines(_decode(data, str(source)), form, source=str(source))
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter("give lines with --over COMMAND or --from FILE, or pipe them in", param_hint="--over")
    return read_lines(_decode(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), "the piped input"), form)


def _run_command(command: str, workspace: Path) -> str:
    ran = subprocess.run(command, shell=True, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True)
    if ran.returncode:
        told = " ".join(ran.stderr.decode(errors="replace").split())[-500:]
        raise ConfigurationError(f"--over: {command!r} ended with {ran.returncode}: {told or 'it said nothing'}")
    return _decode(ran.stdout, f"the output of {command!r}")


def _decode(data: bytes, what: str) -> str:
    if len(data) > MAX_INPUT_BYTES:
        raise ConfigurationError(
            f"{what} has more than {MAX_INPUT_BYTES // 1024 // 1024} MiB; split it into several maps"
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what} is not UTF-8 text; write it in UTF-8") from None
