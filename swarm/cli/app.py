"""The tree of commands: which there are, what the help says of each, and where it is when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup


class Entry(NamedTuple):
    """One command as the help lists it. Its module is imported when it is run or completed, not to print the list."""

    name: str
    home: str
    """Module and name of its function, or of its `typer.Typer` if it has commands of its own."""
    help: str
    """The first sentence of the function's docstring."""
    passes_arguments: bool = False
    """It hands what it does not know on to Celery."""


SECTIONS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Jobs",
        (
            Entry("run", "run:run", "Run a job and print its answer; what happens meanwhile is shown on stderr."),
            Entry("jobs", "jobs:list_jobs", "List the newest jobs."),
            Entry("tree", "jobs:show_tree", "Show a job's agents as a tree."),
            Entry(
                "transcript",
                "transcript:show_transcript",
                "Print everything an agent has lived: prompts, replies, tool calls and their results, waits.",
            ),
            Entry(
                "events",
                "jobs:show_events",
                "Print what has happened in a job: one line, or one JSON object, for each event.",
            ),
            Entry(
                "send",
                "messages:send",
                "Write to an agent; one that has finished goes on with it.",
            ),
            Entry(
                "inbox",
                "messages:inbox",
                "Show the messages that a job's agents wrote to you, which are read with that; or an agent's mailbox.",
            ),
            Entry(
                "board",
                "shared:show_board",
                "Show the task board of a job: what is to be done, by whom, and what waits for what.",
            ),
            Entry("pad", "shared:show_pad", "List the pages of a job's scratchpad, or print one."),
            Entry(
                "questions",
                "questions:list_questions",
                "List what agents ask you and wait for; with a question's id, show it in full.",
            ),
            Entry("approve", "questions:approve", "Allow what an agent asks leave for, or approve its plan."),
            Entry("deny", "questions:deny", "Refuse what an agent asks leave for, or send its plan back."),
            Entry("answer", "questions:answer", "Answer an agent's question in words."),
            Entry(
                "cancel",
                "jobs:cancel",
                "Cancel a job, or an agent and everything below it; what has ended stays as it is.",
            ),
        ),
    ),
    (
        "Agents",
        (
            Entry("agents", "definitions:group", "List the types of agents, or check the files they are defined in."),
            Entry(
                "permissions",
                "permissions:show_permissions",
                "List the permission rules that hold in a workspace; with a tool, say what becomes of a call.",
            ),
            Entry(
                "trust",
                "trust:trust",
                "Let what files of a workspace loosen count: rules that allow, modes, agents in place of shipped ones.",
            ),
        ),
    ),
    (
        "This machine",
        (
            Entry("up", "machines:bring_up", "Start the local stack: Redis, workers and, if asked for, Flower."),
            Entry("down", "machines:take_down", "Stop the local stack."),
            Entry("status", "machines:show_status", "Show what of the local stack runs."),
            Entry(
                "doctor",
                "doctor:doctor",
                "Check what agents need on this machine; exit code 1 if something needed is missing.",
            ),
        ),
    ),
    (
        "A fleet",
        (
            Entry(
                "worker",
                "machines:run_worker",
                "Run a worker in the foreground: `celery -A swarm.tasks worker`, with sensible defaults.",
                passes_arguments=True,
            ),
            Entry(
                "flower",
                "machines:run_flower",
                "Run the Flower dashboard in the foreground; further arguments are Flower's own.",
                passes_arguments=True,
            ),
        ),
    ),
    (
        "Without a model",
        (
            Entry(
                "demo",
                "demo:demo",
                "Let agents find and fix a bug in a sample repository, and show that its tests pass afterwards.",
            ),
            Entry(
                "rehearse",
                "rehearse:rehearse",
                "Serve a scenario's scripted replies under the Messages API, for workers to be started against.",
            ),
        ),
    ),
)

_PASSES_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


class _Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._entries = {entry.name: entry for _, entries in SECTIONS for entry in entries}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make_command(self._entries[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter({**self._entries, **self._made})

    def __len__(self) -> int:
        return len({**self._entries, **self._made})


def _make_command(entry: Entry) -> Any:
    module, _, attribute = entry.home.partition(":")
    found = getattr(import_module(f"swarm.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(entry.name, context_settings=_PASSES_ARGUMENTS if entry.passes_arguments else None)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = entry.name
    return command


class SectionedGroup(TyperGroup):
    """Lists the commands of the help under headings, without loading one of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one block of commands for each section."""
        for title, entries in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(entry.name, entry.help) for entry in entries])


app = typer.Typer(
    name="swarm",
    cls=SectionedGroup,
    no_args_is_help=True,
    # Plain help and plain tracebacks: Rich's take three times as long to start as the rest of the command.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import swarm

        typer.echo(f"swarm {swarm.__version__}")
        raise typer.Exit


@app.callback()
def swarm_command(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A tree of LLM agents that runs on a fleet: every agent a Celery task, every wait without a process.

    Begin with `swarm demo`, which needs no key, or with `swarm run "What does this repository do?"`.
    """
