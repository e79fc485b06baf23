"""`swarm run`: submit one job, and watch it to its end or leave it on the queue."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.cli.jobs import describe_job
from swarm.cli.launch import Launch, place, require_credentials, run_job
from swarm.cli.live_editor import read_line
from swarm.cli.messages import hint_at_unread
from swarm.cli.options import JsonOption, read_prompt
from swarm.cli.order_options import Here, order_options
from swarm.cli.output import one_line, print_json, print_line, print_note, print_result, show_count, show_number
from swarm.cli.prompter import open_terminal
from swarm.cli.sent_files import hold_secrets, show_files
from swarm.cli.trust import asking_at, hold_unguarded
from swarm.client.order import Order, read_order
from swarm.client.preparation import MAX_PROMPT_BYTES, find_workspace, prepare_order
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import AgentView, JobView
from swarm.core.settings import Settings, load_settings
from swarm.local.stack import has_worker, running

LEAVES_OUT = {
    "base_url": "--rehearse starts the server, too",
    "broker": "only programs publish callbacks",
    "commands": "on for every typed prompt",
    "idempotency_key": "a repeated command is meant to run again",
    "on_end": "only programs publish callbacks",
}
"""Options of an order that the command lacks, each with the reason."""


@order_options(Order, LEAVES_OUT)
def run(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="The task, with any piped text; - is stdin. Omit it to converse.",
        ),
    ] = None,
    as_json: JsonOption = False,
    stream: Annotated[bool, typer.Option("--stream", help="With --json: print each event as a line of JSON.")] = False,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Run this for open questions and at the end, with JSON on stdin.",
        ),
    ] = None,
    shows_files: Annotated[
        bool, typer.Option("--show-files", help="List the files that would go along, and send nothing.")
    ] = False,
    *,
    here: Here,
    **given: Any,
) -> None:
    """Run a job and print its answer; progress is shown on stderr.

    Without running workers (`swarm up`, or a fleet on SWARM_REDIS_URL) a local stack is started for the job, and kept for the next
    one for some minutes.
    Exit code: 0 completed, 1 failed or cancelled, 2 wrong usage, 3 Redis has lost the job, 4 stopped at a limit (the answer may be
    partial), 130 interrupted, 143 terminated.
    """
    if stream and (not as_json or here.detach):
        raise typer.BadParameter("it needs --json, and excludes --detach", param_hint="--stream")
    if notify is not None and here.detach:
        raise typer.BadParameter("it cannot run after --detach; use --webhook", param_hint="--notify")
    if shows_files:
        return show_files(find_workspace(Path(given.get("workspace", "."))), as_json=as_json)
    begun = None if prompt is not None or as_json or here.detach else _begin_conversation()
    asked = read_prompt(begun or prompt, usage="give a task: swarm run PROMPT", max_bytes=MAX_PROMPT_BYTES)
    order = read_order(Order, asked, commands=prompt != "-", **given)
    converse = prompt is None and begun is not None
    launch = Launch(order, here, stream=stream, notify=notify, converse=converse)
    settings = load_settings()
    if here.detach:
        _submit_and_leave(launch, settings, as_json=as_json)
    else:
        deliver = _deliver_nothing if stream else _deliver_json if as_json else deliver_text
        raise typer.Exit(run_job(launch, settings, deliver))


def _begin_conversation() -> str | None:
    """Read a conversation's first message from a terminal; None without a terminal or a message."""
    with contextlib.ExitStack() as opened:
        if sys.stdin is None or not sys.stdin.isatty() or (terminal := open_terminal(opened)) is None:
            return None
        return read_line(terminal, "Type a task (Ctrl-D ends):")


def _submit_and_leave(launch: Launch, settings: Settings, *, as_json: bool) -> None:
    with contextlib.ExitStack() as cleanup:
        terminal = open_terminal(cleanup)
        prepared = prepare_order(launch.order, settings, trust=asking_at(terminal, settings))
        hold_unguarded(prepared, terminal, settings)
        hold_secrets(prepared, terminal, settings)
    if settings.redis_url is None and not running(settings):
        raise ConfigurationError("no worker would run the job: start one with `swarm up`, or omit --detach")
    if launch.here.rehearse is not None:
        from swarm.cli.rehearse import begin_rehearsing

        prepared = prepared.asking(begin_rehearsing(launch.here.rehearse, prepared.spec.job_id, settings))
    elif settings.redis_url is None:
        require_credentials(settings)
    job = place(Swarm(settings), prepared)
    if as_json:
        print_json({"job_id": job.id})
    else:
        print_line(job.id)
    if settings.redis_url is not None and not launch.here.quiet and not has_worker(settings):
        print_note("note: no worker answers; the job waits until one does (`swarm worker`)")


def deliver_text(view: JobView, agents: Sequence[AgentView]) -> None:
    """Print the job's outcome and its answer."""
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
    """Print nothing, because the stream's last event is the result."""


def _deliver_json(view: JobView, agents: Sequence[AgentView]) -> None:
    print_json(describe_job(view, agents))
