"""The command tree: each command's section, help text and module, imported only when needed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from swarm.core.capabilities import capabilities

SECTIONS = {
    "Jobs": {
        "run": "run:run",
        "try": "first_task:try_out",
        "map": "map:map_lines",
        "maps": "maps:maps",
        "attach": "attach:attach",
        "acp": "acp:acp",
        "top": "top:top",
        "jobs": "jobs:list_jobs",
        "tree": "jobs:show_tree",
        "transcript": "transcript:show_transcript",
        "events": "jobs:show_events",
        "send": "messages:send",
        "inbox": "messages:inbox",
        "questions": "questions:list_questions",
        "approve": "questions:approve",
        "deny": "questions:deny",
        "answer": "questions:answer",
        "compact": "messages:compact",
        "event": "messages:tell_event",
        "cancel": "jobs:cancel",
        "diff": "work:show_diff",
        "apply": "work:apply_work",
        "wait": "wait:wait_for_jobs",
        "cost": "cost:show_spending",
        "audit": "wait:audit",
        "resume": "replay:resume",
        "replay": "replay:replay",
        "export": "replay:export_job",
        "import": "replay:import_job",
        "archive": "archive:archive",
        "forget": "forget:forget",
        "usage": "usage:show_usage",
    },
    "Agents": {
        "agents": "definitions:list_agents",
        "tools": "tools:show_tools",
        "permissions": "permissions:show_permissions",
        "trust": "trust:trust",
        "compat": "compat:show_compat",
    },
    "This machine": {
        "up": "machines:bring_up",
        "down": "machines:take_down",
        "status": "machines:show_status",
        "doctor": "doctor:doctor",
    },
    "A fleet": {
        "join": "join:join",
        "worker": "machines:run_worker",
        "workers": "workers:list_workers",
        "drain": "workers:drain",
        "upgrade": "upgrade:show_upgrade",
        "flower": "machines:run_flower",
        "serve": "daemons:serve",
        "hub": "daemons:hub",
        "telemetry": "daemons:telemetry",
        "limits": "limits:show_limits",
        "keys": "keys:keys",
        "redis-acl": "redis_acl:print_users",
    },
    "Without a model": {"demo": "demo:demo", "rehearse": "rehearse:rehearse"},
}
"""Module and function of each command by name; a group is the `group` of its module."""
for _capability in capabilities().values():
    for _section, _commands in _capability.commands.items():
        SECTIONS[_section].update(_commands)

_WORKING = ("run", "try", "map")
"""Commands that start a worker if this machine has none."""
_PASS_ARGUMENTS = ("worker", "flower")
"""Commands that hand unknown options on to Celery."""
_SENTENCE = re.compile(r'.+?\.(?=\s|""")', re.DOTALL)


class ListedCommand(TyperCommand):
    """A command for help and completion, shown without importing its module, which would be slow."""

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name)
        self._module, _, self._function = home.partition(":")

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence of the function's docstring, as its source has it."""
        source = Path(__file__).with_name(f"{self._module}.py").read_text(encoding="utf-8")
        # One pattern for all: compiling one for each command takes longer than the rest of the help.
        _, _, text = source.partition(f"\ndef {self._function}(")[2].partition('\n    """')
        found = _SENTENCE.match(text)
        return found[0] if found else ""

    def load(self) -> Any:
        """The command itself."""
        name = str(self.name)
        module = import_module(f"swarm.cli.{self._module}")
        group = getattr(module, "group", None)
        if group is None:
            group = typer.Typer(rich_markup_mode=None, add_completion=False)
            passing = {"allow_extra_args": True, "ignore_unknown_options": True} if name in _PASS_ARGUMENTS else None
            group.command(name, context_settings=passing)(getattr(module, self._function))
        command = typer.main.get_command(group)
        command.name = name
        return command


class SectionedGroup(TyperGroup):
    """Lists the commands under headings, and loads one when it is run or what follows it is completed."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {
            name: ListedCommand(name, home) for entries in SECTIONS.values() for name, home in entries.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that the first word names; return it with the remaining words."""
        if args and len(args[0].split()) > 1:
            args = ["run", *args]  # anything but one word is a task
        elif args and args[0] not in self.commands:
            ctx.fail(_explain_unknown(args[0], list(self.commands)))
        name, listed, rest = super().resolve_command(ctx, args)
        if name in _WORKING and not ctx.resilient_parsing and not {"-h", "--help"} & {*rest}:
            from swarm.local.template import end_template, prepare_template

            ctx.call_on_close(end_template)
            prepare_template()
        return name, listed.load() if isinstance(listed, ListedCommand) else listed, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one block of commands for each section."""
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str()) for name in entries])


def _explain_unknown(word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, n=2)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no command {word!r}{meant} Start agents on a task with `swarm run TASK`"


app = typer.Typer(
    name="swarm",
    cls=SectionedGroup,
    no_args_is_help=True,
    # Plain help and plain tracebacks: importing Rich takes three times as long as the rest of the command.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import swarm

        typer.echo(f"swarm {swarm.__version__}")
        raise typer.Exit


def _take_settings(file: Path | None) -> None:
    # Before the command is resolved, which may start a worker.
    if file is not None:
        from swarm.local.settings_file import take_settings

        take_settings(file)


@app.callback()
def swarm_command(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    env: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Take settings from a file of `swarm join`.", callback=_take_settings, is_eager=True
        ),
    ] = None,
) -> None:
    """A tree of LLM agents that runs on a fleet: every agent a Celery task, every wait without a process.

    Begin with `swarm demo`, which needs no key, or with `swarm run "What does this repository do?"`.
    """
