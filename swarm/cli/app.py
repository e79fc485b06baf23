"""The tree of commands, and how its help is laid out."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from swarm.cli import definitions, demo, doctor, jobs, machines, rehearse, run, transcript

_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Jobs", ("run", "jobs", "tree", "transcript", "events", "cancel")),
    ("Agents", ("agents",)),
    ("This machine", ("up", "down", "status", "doctor")),
    ("A fleet", ("worker", "flower")),
    ("Without a model", ("demo", "rehearse")),
)


class SectionedGroup(TyperGroup):
    """Lists the commands of the help under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one block of commands for each section."""
        named = {name for _, names in _SECTIONS for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*_SECTIONS, ("More", rest)):
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(100)) for name, command in found if command is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


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


app.command("run")(run.run)
app.command("jobs")(jobs.list_jobs)
app.command("tree")(jobs.show_tree)
app.command("transcript")(transcript.show_transcript)
app.command("events")(jobs.show_events)
app.command("cancel")(jobs.cancel)
app.add_typer(definitions.group, name="agents")
app.command("up")(machines.bring_up)
app.command("down")(machines.take_down)
app.command("status")(machines.show_status)
app.command("doctor")(doctor.doctor)
app.command("worker", context_settings=machines.PASSES_ARGUMENTS)(machines.run_worker)
app.command("flower", context_settings=machines.PASSES_ARGUMENTS)(machines.run_flower)
app.command("demo")(demo.demo)
app.command("rehearse")(rehearse.rehearse)
