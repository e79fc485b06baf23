"""`swarm demo`: a job that fixes a failing test in a sample repository, without a key."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from swarm.agent.entries import Prompt, ToolFinished
from swarm.cli.launch import Launch, require_credentials, run_job
from swarm.cli.order_options import Here
from swarm.cli.output import output_console, plain, print_line, print_note, show_count, show_number
from swarm.client.order import Order
from swarm.client.swarm import Swarm
from swarm.core.records import AgentView, JobView
from swarm.core.settings import Settings, load_settings
from swarm.rehearsal.demo import COORDINATED, SCENARIO, Demo, prepare_demo
from swarm.workspace.git import run_git

_TEST_SECONDS = 120
_NOBODY = Path("/nonexistent")
"""The home of nobody: the demo needs nothing that a person has configured."""
_SHOWN_LINES = 15
_DIFF_STYLES = MappingProxyType({"+++": "bold", "---": "bold", "+": "green", "-": "red", "@@": "cyan", "diff": "bold"})


def demo(
    real: Annotated[bool, typer.Option("--real", help="Use the real model, which needs a key.")] = False,
    coordinator: Annotated[
        bool,
        typer.Option("--coordinator", help="Use a coordinator, and show which of its calls are refused."),
    ] = False,
    target: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Folder for the sample repository.", show_default="temporary"),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Agents at once on the started worker.")] = None,
) -> None:
    """Let agents find and fix a bug in a sample repository, and show that its tests pass afterwards."""
    settings = load_settings()
    if real:
        require_credentials(settings)
    prepared = prepare_demo(target)
    _say(f"A sample repository with a bug in it: {prepared.workspace}")
    _say("Its tests, before:")
    if _run_tests(prepared):
        _say("The tests pass already, so there is nothing to fix. Name an empty folder with --folder.")
        raise typer.Exit(1)
    _say(f"The job: {prepared.prompt.strip()}")
    if real:
        _say("The model is real.")
    else:
        _say(
            "The model's words are rehearsed (a script on this machine, over real HTTP). Everything else is real: "
            "Redis, the worker, the agents and their queue, the files they read and change, the tests they run."
        )
    # This temporary folder must work without a sandbox and without a person to answer.
    order = Order(prompt=prepared.prompt, workspace=prepared.workspace, mode="bypassPermissions")
    if coordinator:
        order = replace(order, agent=COORDINATED)
    scenario = COORDINATED if coordinator else SCENARIO
    here = Here(rehearse=None if real else scenario, concurrency=concurrency)
    launch = Launch(order, here, home=_NOBODY)
    code = run_job(launch, settings, partial(_deliver_coordinated, settings) if coordinator else _deliver)
    if code == 130:
        raise typer.Exit(code)
    _say("What changed:")
    _show_changes(prepared.workspace)
    _say("Its tests, after:")
    passed = _run_tests(prepared)
    if target is None:
        shutil.rmtree(prepared.workspace.parent, ignore_errors=True)
        print_note(f"{prepared.workspace} is removed; `swarm demo --folder FOLDER` keeps it")
    _say("The tests failed before and pass now." if passed else "The tests still fail.")
    if not real:
        _say("Remember: the model's words were rehearsed, everything else was real. With a key: swarm demo --real")
    raise typer.Exit(0 if passed and code == 0 else 1)


def _deliver(view: JobView, agents: Sequence[AgentView]) -> None:
    counts = f"{show_number(view.agents, 'agent')}, {show_number(view.turns, 'turn')}"
    _say(f"The job {view.state.replace('_', ' ')}: {counts}, {show_count(view.usage.total_tokens)} tokens")
    if view.reason:
        _print(view.reason)
    _print(view.text)


def _deliver_coordinated(settings: Settings, view: JobView, agents: Sequence[AgentView]) -> None:
    _deliver(view, agents)
    _say("Calls of the coordinator that the runtime refused:")
    journal = Swarm(settings).journal(view.root_id)
    refused = [entry.text for entry in journal if isinstance(entry, ToolFinished) and entry.is_error]
    refused += [entry.text for entry in journal if isinstance(entry, Prompt) and entry.purpose == "coordination"]
    _print("\n".join(f"{number}. {text}" for number, text in enumerate(refused, 1)))


def _run_tests(prepared: Demo) -> bool:
    _print("$ " + shlex.join([Path(prepared.test_command[0]).name, *prepared.test_command[1:]]))
    try:
        ran = subprocess.run(
            prepared.test_command,
            cwd=prepared.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print_note(f"the tests did not end within {_TEST_SECONDS} s")
        return False
    lines = ran.stdout.decode(errors="replace").rstrip().splitlines()
    _print("\n".join((["…"] if len(lines) > _SHOWN_LINES else []) + lines[-_SHOWN_LINES:]))
    return ran.returncode == 0


def _show_changes(workspace: Path) -> None:
    if shutil.which("git") is None or not (workspace / ".git").exists():
        _print("(git is not installed, so the differences cannot be shown)")
        return

    for arguments in (["--stat"], []):
        # Ignore the person's git configuration, because the output is shown.
        ran = run_git(workspace, ["diff", "--no-color", *arguments])
        _print(ran.stdout.decode(errors="replace").rstrip(), _DIFF_STYLES)


def _say(text: str) -> None:
    line = f"\n▸ {plain(text)}"
    if sys.stdout.isatty():
        output_console().print(line, style="bold")
    else:
        print_line(line)


def _print(text: str, styles: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print text indented by two; on a terminal, `styles` maps the beginning of a line to its style."""
    if not text.strip():
        return
    lines = plain(text).splitlines()
    if not sys.stdout.isatty():
        print_line("\n".join(f"  {line}" for line in lines))
        return
    for line in lines:
        style = next((style for mark, style in styles.items() if line.startswith(mark)), "")
        output_console().print(Padding(Text(line or " ", style), (0, 0, 0, 2), expand=False))
