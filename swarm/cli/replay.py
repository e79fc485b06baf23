"""`swarm export`, `import`, `replay` and `resume`: keep, read and continue the histories of jobs."""

from __future__ import annotations

import contextlib
import gzip
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, get_args

import typer

from swarm.cli.completion import complete_scenario
from swarm.cli.event_lines import describe_event
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption, takes
from swarm.cli.output import print_json, print_json_text, print_line, print_note, show_number
from swarm.cli.trials import Trial, go_on_from
from swarm.cli.workflows import continue_workflow
from swarm.client.event_feed import EventFeed
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError
from swarm.replay.check import check_requests
from swarm.replay.files import FileSource
from swarm.replay.importer import freeze, import_past
from swarm.replay.past import read_lines, read_past, write_lines
from swarm.replay.redaction import Redaction, redact
from swarm.replay.resumption import Resumption
from swarm.replay.scenario import make_scenario
from swarm.replay.shared_state import share_then

GO_ON = "Continue where you stopped."
_LONGEST_PAUSE_SECONDS = 5.0
_SAME_MOMENT_SECONDS = 0.05


def export_job(
    job: JobArgument = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; .gz is compressed. Default: stdout."),
    ] = None,
    redacted: Annotated[
        str | None,
        typer.Option("--redact", metavar="WHAT", help="Remove secrets (apparent ones), or words (all texts)."),
    ] = None,
    scenario: Annotated[bool, typer.Option("--scenario", help="Write the model's replies, to rehearse.")] = False,
) -> None:
    """Write a job as JSON lines: its record, agents, journals, mail, outputs and events.

    Workspace files are not included. A job exported without its words can be read, but not continued.
    """
    if redacted not in (None, *get_args(Redaction)):
        raise typer.BadParameter(f"one of {', '.join(get_args(Redaction))}", param_hint="--redact")
    with open_swarm() as swarm:
        past = read_past(swarm.store, find_job(swarm, job).id)
        if redacted is not None:
            past = redact(past, redacted)  # type: ignore[arg-type]
        with _open(output, "wt") as file:
            if scenario:
                file.write(make_scenario(redact(past, "secrets")))
                return
            count = write_lines(past, file.write)
    if output is not None:
        print_note(f"{output}: {past.job_id}, {show_number(count, 'record')}")


def import_job(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="File from `swarm export`; - reads a pipe.")],
) -> None:
    """Import an exported job, to read it and to continue it with `swarm replay`; nothing of it runs."""
    with open_swarm() as swarm, _open(None if str(source) == "-" else source, "rt") as file:
        past = freeze(read_lines(file, str(source)))
        import_past(swarm.store, past, names={"root": past.root}, shared=share_then(past))
    print_line(past.job_id)


@contextlib.contextmanager
def _open(path: Path | None, mode: str) -> Iterator[IO[str]]:
    try:
        if path is None:
            yield sys.stdout if mode == "wt" else sys.stdin
        elif path.suffix == ".gz":
            with gzip.open(path, mode, encoding="utf-8") as packed:
                yield packed  # type: ignore[misc]
        else:
            with path.open(mode, encoding="utf-8") as file:
                yield file
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{path or 'the pipe'} cannot be used: {why}") from error


@dataclass(frozen=True)
class ReplayOptions:
    """The options of `swarm replay`."""

    job: JobArgument = None
    until: Annotated[int | None, typer.Option(metavar="SEQ", min=1, help="Read up to this event number.")] = None
    speed: Annotated[
        float | None, typer.Option(min=0.01, metavar="N", help="Speed relative to the job; default: at once.")
    ] = None
    check: Annotated[bool, typer.Option("--check", help="Check that today's code sends the same requests.")] = False
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="AGENT:TURN",
            help="Continue after that turn, as a new job: root:3, agent-1f:0, NAME:2.",
        ),
    ] = None
    text: Annotated[str, typer.Option("--with", metavar="TEXT", help="With --from: first message to the agent.")] = ""
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="With --from: the agent's new model.")] = None
    agents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --from: use this workspace's current agent definitions.",
        ),
    ] = None
    files: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="With --from: restore (a copy of the old files) or here (the folder).",
            show_default="restore, if the job kept them",
        ),
    ] = ""
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", metavar="FOLDER", help="With --from: use this folder, not the job's."),
    ] = None
    rehearse: Annotated[
        str | None,
        typer.Option(metavar="SCENARIO", help="With --from: play a scenario.", autocompletion=complete_scenario),
    ] = None
    times: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="With --from: number of new jobs, all at once.")
    ] = 1
    score: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="With --from: run this command on each job's files, and compare.",
        ),
    ] = None
    as_json: JsonOption = False

    @property
    def with_from(self) -> bool:
        """Whether an option is set that needs --from."""
        about = (self.text, self.model, self.agents, self.files, self.workspace, self.rehearse, self.score)
        return any(about) or self.times > 1


@takes(ReplayOptions)
def replay(given: ReplayOptions) -> None:
    """Read a job again without a model, check it against today's code, or continue it from any turn as a new job.

    From the first agent, the whole tree continues; from another agent, only that one. The old job is not changed. Exit code of --check:
    1 if a request would differ; of --score: 1 if a job did not complete, or the command failed on one.
    """
    if given.files not in ("", *get_args(FileSource)):
        raise typer.BadParameter("restore or here", param_hint="--files")
    if given.start is None and given.with_from:
        raise typer.BadParameter(
            "--with, --model, --agents, --files, --workspace, --rehearse, --times and --score go with --from"
        )
    with open_swarm() as swarm:
        found = find_job(swarm, given.job)
        if given.start is not None:
            wanted = Resumption("", 0, given.text, given.model, given.files, given.workspace, given.agents)  # type: ignore[arg-type]
            trial = Trial(given.times, given.score, given.rehearse)
            go_on_from(swarm, found, given.start, wanted, trial, as_json=given.as_json)
        elif given.check:
            _check(swarm, found, as_json=given.as_json)
        else:
            _read_again(swarm, found, given.until, given.speed, as_json=given.as_json)


def _read_again(swarm: Swarm, job: Job, until: int | None, speed: float | None, *, as_json: bool) -> None:
    notifier, before = EventFeed(swarm, job), None
    for event in job.follow(idle_seconds=_SAME_MOMENT_SECONDS):
        if event is None or (until is not None and event.seq > until):
            return
        for told in notifier.tell(event):
            line = told.model_dump_json() if as_json else describe_event(told)
            if not line:
                continue
            if speed is not None and before is not None:
                time.sleep(min(_LONGEST_PAUSE_SECONDS, max(0.0, told.at - before) / speed))
            before = told.at
            (print_json_text if as_json else print_line)(line if as_json else f"{told.seq:>6}  {line}")


def _check(swarm: Swarm, job: Job, *, as_json: bool) -> None:
    checked = list(check_requests(read_past(swarm.store, job.id), swarm.settings.prices_file, swarm.settings.vendors))
    counts = Counter(one.outcome for one in checked)
    differing = [one for one in checked if one.outcome == "differs"]
    if as_json:
        print_json(
            {
                "job_id": job.id,
                **counts,
                "differing": [{"agent_id": one.agent_id, "turn": one.turn} for one in differing],
            }
        )
    else:
        for one in differing:
            print_line(f"{one.agent_id} turn {one.turn}: the request differs")
        unknown = f", {counts['unknown']} that cannot be compared" if counts["unknown"] else ""
        print_line(f"{counts['same']} requests unchanged, {counts['differs']} different{unknown}")
    if differing:
        raise typer.Exit(1)


def resume(
    job: JobArgument = None,
    text: Annotated[str, typer.Option("--with", metavar="TEXT", help="Message to its first agent.")] = GO_ON,
    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Scenario for a rehearsal that was cancelled, or of a workflow.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Of a workflow: make its failed calls again.")
    ] = False,
    agents: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of a workflow: another limit of agents.")
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0, help="Of a workflow: another budget.")] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a workflow: another program, .py, .js or .mjs.")
    ] = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Of a workflow: tell its plan; start nothing.")] = False,
) -> None:
    """Continue an ended job with fresh limits; a cancelled one continues as a new job, from its last turn.

    A workflow continues as a new job with today's program, and reuses the results that are there.
    """
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        view = found.view()
        if swarm.store.agents.spec(view.root_id).definition.workflow is not None:
            continue_workflow(
                swarm,
                found,
                retry_failed=retry_failed,
                max_agents=agents,
                budget_usd=budget,
                script=script,
                scenario=rehearse,
                only_plan=only_plan,
            )
            return
        if retry_failed or only_plan or not (agents is None and budget is None and script is None):
            raise ConfigurationError(
                f"{found.id} is no workflow; --retry-failed, --agents, --budget, --script and --plan are for one"
            )
        if not view.ended:
            raise ConfigurationError(
                f"{found.id} is still running; `swarm attach {found.id}` watches it, `swarm send` writes to it"
            )
        if view.state != "cancelled":
            found.send("root", text)
            print_line(found.id)
            return
        past = read_past(swarm.store, found.id)
        start = f"{past.root}:{past.count_turns(past.root)}"
        go_on_from(swarm, found, start, Resumption("", 0, text), Trial(scenario=rehearse), as_json=False)
