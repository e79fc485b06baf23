"""`swarm run`: one job, watched to its end, or put on the queue and left there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from swarm.agent.spec import Limits
from swarm.cli.completing import complete_model, complete_scenario, complete_type
from swarm.cli.jobs import describe_job
from swarm.cli.launch import Launch, place, prepare_trusted, require_credentials, run_job
from swarm.cli.messages import hint_at_unread
from swarm.cli.options import (
    AllowOption,
    AskOption,
    DenyOption,
    JsonOption,
    ModeOption,
    NetworkOption,
    WorkspaceOption,
    parse_duration,
    parse_patience,
    read_prompt,
    read_schema,
)
from swarm.cli.output import one_line, print_json, print_line, print_note, print_result, show_count, show_number
from swarm.cli.prompting import open_terminal
from swarm.cli.rehearse import begin_rehearsing
from swarm.cli.talking import read_line
from swarm.client.orders import MAX_PROMPT_BYTES, Order
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import AgentView, JobView
from swarm.core.settings import Settings, load_settings
from swarm.definitions.model import Isolation
from swarm.local.stack import has_worker, running


def run(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="What is to be done, and what is piped in with it; - takes the pipe alone. Without it, at a terminal: a conversation.",
        ),
    ] = None,
    agent: Annotated[
        str,
        typer.Option("--agent", "-a", metavar="TYPE", help="Type of the first agent.", autocompletion=complete_type),
    ] = "build",
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the job is called in lists.", show_default="the prompt")
    ] = None,
    workspace: WorkspaceOption = Path(),
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model of the first agent: haiku, sonnet, opus or a full id.",
            autocompletion=complete_model,
            show_default="SWARM_MODEL, else sonnet",
        ),
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=0, max=64, help="How deep agents may nest.", show_default="2")
    ] = None,
    max_agents: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Agents in all.", show_default="200")
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Agents that run at once.", show_default="20")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Turns of each agent.", show_default="30")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of the whole job.", show_default="none")] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="Money for the whole job.", show_default="none")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="TIME",
            help="Time for the whole job: 90, 90s, 10m, 2h; then a minute more for last words.",
            show_default="none",
        ),
    ] = None,
    mode: ModeOption = None,
    allow: AllowOption = None,
    ask: AskOption = None,
    deny: DenyOption = None,
    network: NetworkOption = False,
    ask_timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_patience,
            metavar="TIME",
            help="How long a question to you can be answered, 0: not at all. "
            "Default: an hour; without a terminal 0, so what would be asked about is denied, unless --detach is given.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON schema: the answer must be valid for it, and is printed as JSON."),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="A shell command that must succeed before the answer is accepted: 'pytest -q'."
        ),
    ] = None,
    rubric: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Criteria, in words, that an independent grader must find met.")
    ] = None,
    tries: Annotated[
        int | None,
        typer.Option(
            min=1, max=20, help="How often the work may be handed in to --check and --rubric.", show_default="3"
        ),
    ] = None,
    check_timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration, metavar="TIME", help="Time limit of the check, 1h at most.", show_default="10m"
        ),
    ] = None,
    summaries: Annotated[
        bool,
        typer.Option("--summaries", help="Have a small model say what agents do, name the job, and sum up its end."),
    ] = False,
    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Play a scenario instead of asking a model: a name or a file. With --detach it is served until the job has ended.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Agents at once on the worker that is started for this job.",
            show_default="4 for each processor, 8 to 20",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Put the job on the queue and print its id.")] = False,
    as_json: JsonOption = False,
    home_workspace: Annotated[
        bool, typer.Option("--home-workspace", help="Let the workspace be a home, or a folder that holds one.")
    ] = False,
    instruction_files: Annotated[
        bool,
        typer.Option(
            "--instruction-files/--no-instruction-files", help="Give agents what CLAUDE.md, AGENTS.md and rules say."
        ),
    ] = True,
    snapshots: Annotated[
        bool | None,
        typer.Option(
            "--snapshots/--no-snapshots",
            help="Keep the workspace's files after each call that may change them.",
            show_default="SWARM_SNAPSHOTS",
        ),
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="worktree: work on a copy of the workspace, whose changes are taken over at the end; none: in the workspace itself.",
            show_default="the type's, else none",
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option(min=1, max=100, help="Turns the job has on the fleet where others have one.")
    ] = 1,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Tell this address how it ends, and what waits for you (SWARM_JOB_WEBHOOKS, SWARM_WEBHOOK_SECRET).",
        ),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Run this here when a question waits and at the end, with the event as JSON on its stdin.",
        ),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="With --json: print each event as it happens, one JSON object a line.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a job and print its answer; what happens meanwhile is shown on stderr.

    Without running workers (`swarm up`, or a fleet on SWARM_REDIS_URL) a local stack is started for the job, and kept for the next
    one for some minutes.
    Exit code: 0 completed, 1 failed or cancelled, 2 wrong usage, 3 Redis has lost the job, 4 stopped at a limit (its answer is what
    there was by then), 130 interrupted, 143 terminated.
    """
    if stream and (not as_json or detach):
        raise typer.BadParameter("it goes with --json, and without --detach", param_hint="--stream")
    if notify is not None and detach:
        raise typer.BadParameter("nobody is there to run it after --detach; use --webhook", param_hint="--notify")
    if isolation not in (None, *get_args(Isolation)):
        raise typer.BadParameter(f"one of {', '.join(get_args(Isolation))}", param_hint="--isolation")
    if budget == 0:
        raise typer.BadParameter("a budget must be more than nothing", param_hint="--budget")

    begun = None if prompt is not None or as_json or detach else _begin_conversation()
    given: dict[str, Any] = {
        "max_depth": max_depth,
        "max_agents": max_agents,
        "max_running": max_running,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "budget_usd": budget,
        "timeout_seconds": timeout,
    }
    order = Order(
        prompt=read_prompt(
            begun or prompt, usage="say what is to be done: swarm run PROMPT", max_bytes=MAX_PROMPT_BYTES
        ),
        agent=agent,
        title=title,
        workspace=workspace,
        model=model,
        limits=Limits(**{name: value for name, value in given.items() if value is not None}),
        mode=mode,
        allow=allow or (),
        ask=ask or (),
        deny=deny or (),
        network=network,
        ask_seconds=ask_timeout,
        result_schema=None if schema is None else read_schema(schema),
        check=check,
        rubric=None if rubric is None else _read_rubric(rubric),
        tries=tries,
        check_seconds=check_timeout,
        summaries=summaries,
        home_workspace=home_workspace,
        instruction_files=instruction_files,
        snapshots=snapshots,
        isolation=isolation,  # type: ignore[arg-type]
        priority=priority,
        commands=prompt != "-",
        webhook=webhook,
    )
    converse = prompt is None and begun is not None
    launch = Launch(
        order, scenario=rehearse, concurrency=concurrency, quiet=quiet, stream=stream, notify=notify, converse=converse
    )
    settings = load_settings()
    if detach:
        _submit_and_leave(launch, settings, as_json=as_json)
    else:
        deliver = _deliver_nothing if stream else _deliver_json if as_json else deliver_text
        raise typer.Exit(run_job(launch, settings, deliver))


def _begin_conversation() -> str | None:
    """What a person at a terminal says first; None if nobody is there, or says nothing."""
    with contextlib.ExitStack() as opened:
        if sys.stdin is None or not sys.stdin.isatty() or (terminal := open_terminal(opened)) is None:
            return None
        return read_line(terminal, "What is to be done? (Ctrl-D ends)")


def _read_rubric(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the rubric {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the rubric {path} is not UTF-8 text; write it in UTF-8") from None


def _submit_and_leave(launch: Launch, settings: Settings, *, as_json: bool) -> None:
    with contextlib.ExitStack() as cleanup:
        prepared = prepare_trusted(launch.order, settings, open_terminal(cleanup))
    if settings.redis_url is None and not running(settings):
        raise ConfigurationError("nobody would run the job: start a worker with `swarm up`, or leave --detach away")
    if launch.scenario is not None:
        url = begin_rehearsing(launch.scenario, prepared.spec.job_id, settings)
        prepared = replace(prepared, spec=prepared.spec.model_copy(update={"base_url": url}))
    elif settings.redis_url is None:
        require_credentials(settings)
    job = place(Swarm(settings), prepared)
    if as_json:
        print_json({"job_id": job.id})
    else:
        print_line(job.id)
    if settings.redis_url is not None and not launch.quiet and not has_worker(settings):
        print_note("note: no worker answers; the job waits until one does (`swarm worker`)")


def deliver_text(view: JobView, agents: Sequence[AgentView]) -> None:
    """Say how the job ended, and print its answer."""
    spent = f"{show_number(len(agents), 'agent')}, {show_count(view.usage.total_tokens)} tokens"
    if view.state != "completed":
        print_note(
            f"swarm: {view.id} {view.state.replace('_', ' ')} ({spent}){f': {view.reason}' if view.reason else ''}"
        )
    elif view.reason:
        print_note(f"swarm: {view.id} completed, but: {view.reason}")
    for verdict in view.verdicts:
        print_note(f"swarm: {verdict.headline}: {one_line(verdict.summary, 300)}")
    hint_at_unread(view.id, view.unread)
    if view.data is not None:
        print_json(view.data)
    elif view.text.strip():
        print_result(view.text)


def _deliver_nothing(view: JobView, agents: Sequence[AgentView]) -> None:
    """The stream's last event has told it all."""


def _deliver_json(view: JobView, agents: Sequence[AgentView]) -> None:
    print_json(describe_job(view, agents))
