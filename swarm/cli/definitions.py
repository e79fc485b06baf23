"""`swarm agents`: which types of agents exist here, where they come from, and what they may do.

The result goes to stdout; what is wrong, hidden or understood only in part goes to stderr.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import new_table, one_line, output_console, print_json, print_note
from swarm.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarm.definitions.catalogue import Shadowed
    from swarm.definitions.model import AgentDefinition
    from swarm.definitions.sources import Problem

group = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="List the types of agents, or check the files they are defined in.",
)


@group.callback(invoke_without_command=True)
def list_agents(ctx: typer.Context, workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List the types of agents that apply in a workspace, with what each may do and where it comes from."""
    if ctx.invoked_subcommand is not None:
        return
    from swarm.definitions.catalogue import load_catalogue

    folder = workspace.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"the workspace {folder} is not a folder; name one that exists with --workspace")
    catalogue = load_catalogue(folder)
    definitions = [definition for _, definition in sorted(catalogue.definitions.items())]
    if as_json:
        print_json(
            {
                "agents": [_describe(definition) for definition in definitions],
                "problems": [problem.model_dump() for problem in catalogue.problems],
                "shadowed": [one.model_dump() for one in catalogue.shadowed],
            }
        )
    else:
        _print_definitions(definitions, folder)
    for shadow in catalogue.shadowed:
        print_note(f"hidden: {_describe_shadow(shadow, folder)}")
    _print_problems(catalogue.problems, folder)
    if doubtful := [definition for definition in definitions if definition.warnings]:
        example = shlex.quote(os.path.relpath(doubtful[0].source))
        print_note(f"{len(doubtful)} of them understood only in part; `swarm agents check {example}` says what was not")


@group.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A definition file, or a folder of them.")],
    as_json: JsonOption = False,
) -> None:
    """Explain definition files: what was not understood, where, and the remedy. Exit code 1 if one cannot be used."""
    from swarm.definitions.catalogue import check_path

    if not path.exists():
        raise ConfigurationError(f"{path} does not exist; name a definition file, or a folder of them")
    result = check_path(path)
    folder = Path.cwd()
    if as_json:
        agents = [_describe(definition) for definition in result.definitions]
        print_json({"agents": agents, "problems": [problem.model_dump() for problem in result.problems]})
    else:
        _print_definitions(result.definitions, folder)
    for definition in result.definitions:
        place = f"{_shorten(definition.source, folder)}: {definition.name}"
        for warning in definition.warnings:
            print_note(f"warning: {place}: {warning}")
        for tool, reason in withheld_tools(definition).items():
            print_note(f"note: {place}: it lists {tool} but does not get it: {reason}")
    for name, source in result.disabled.items():
        print_note(f"note: {_shorten(source, folder)}: it switches {name!r} off")
    _print_problems(result.problems, folder)
    if not (result.definitions or result.problems or result.disabled):
        raise ConfigurationError(f"{path} holds no agent definition that any supported format would have")
    doubtful = sum(1 for definition in result.definitions if definition.warnings)
    print_note(
        f"{len(result.definitions)} can be used ({doubtful} understood only in part), {len(result.problems)} cannot"
    )
    if result.problems:
        raise typer.Exit(1)


def offered_tools() -> list[str]:
    """Every tool that agents here may have, before the filter."""
    from swarm.agent.life import SPAWN_TOOL
    from swarm.team.board_tools import board_tools
    from swarm.team.scratchpad_tools import pad_tools
    from swarm.team.team_tools import team_tools
    from swarm.tools.peers import peer_tools
    from swarm.tools.registry import builtin_tools

    return [*builtin_tools(), SPAWN_TOOL, *peer_tools(), *team_tools(), *board_tools(), *pad_tools()]


def allowed_tools(definition: AgentDefinition) -> list[str]:
    """The tools it gets where it usually stands: as the first agent of a job, or one level below."""
    from swarm.permissions.filter import filter_tools

    return filter_tools(offered_tools(), definition, **_usual_place(definition))


def withheld_tools(definition: AgentDefinition) -> dict[str, str]:
    """The tools that it asks for by name and does not get, each with the reason."""
    from swarm.definitions.names import KNOWN_TOOLS, split_pattern
    from swarm.permissions.filter import explain_tools

    wanted = dict.fromkeys(split_pattern(entry)[0] for entry in definition.tools or [])
    known = [tool for tool in wanted if tool in KNOWN_TOOLS]
    reasons = dict(explain_tools(known, definition, **_usual_place(definition)))
    offered = offered_tools()
    absent = {tool: "it is not offered here" for tool in known if tool not in offered}
    return absent | reasons


def _usual_place(definition: AgentDefinition) -> dict[str, Any]:
    from swarm.agent.spec import Limits

    is_root = definition.mode == "primary"
    return {
        "depth": 0 if is_root else 1,
        "max_depth": Limits().max_depth,
        "is_root": is_root,
        "background": definition.background and not is_root,
    }


def _describe(definition: AgentDefinition) -> dict[str, Any]:
    return {
        **definition.model_dump(exclude={"prompt"}),
        "allowed_tools": allowed_tools(definition),
        "withheld_tools": withheld_tools(definition),
    }


def _print_definitions(definitions: Sequence[AgentDefinition], folder: Path) -> None:
    if not definitions:
        return
    console = output_console()
    table = new_table("type", "started by", "model", "files", "mode", "tools", "source")
    for definition in definitions:
        tools = allowed_tools(definition)
        starters = {"primary": "a person", "subagent": "agents", "all": "both"}[definition.mode]
        table.add_row(
            definition.name,
            starters,
            definition.model or "(settings)",
            _describe_access(tools),
            definition.permission_mode + (", background" if definition.background else ""),
            ", ".join(tools) or "none",
            _shorten(definition.source, folder),
        )
    console.print(table)
    if console.is_terminal:
        for definition in definitions:
            console.print(f"\n{definition.name}: {one_line(definition.description, 300)}")


def _describe_access(tools: Sequence[str]) -> str:
    """What the tools let it do with files; a shell counts as writing, as long as nothing keeps it from that."""
    from swarm.permissions.filter import SHELL_TOOLS, WRITING_TOOLS

    if not (WRITING_TOOLS | SHELL_TOOLS).isdisjoint(tools):
        return "write"
    return "read" if {"Read", "Glob", "Grep", "LS"}.intersection(tools) else "none"


def _describe_shadow(shadow: Shadowed, folder: Path) -> str:
    return f"{shadow.name} of {_shorten(shadow.source, folder)}, by {_shorten(shadow.hidden_by, folder)}"


def _print_problems(problems: Sequence[Problem], folder: Path) -> None:
    for problem in problems:
        print_note(f"problem: {problem.model_copy(update={'path': _shorten(problem.path, folder)})}")


def _shorten(source: str, folder: Path) -> str:
    path = Path(source)
    for base, mark in ((folder, "."), (Path.home(), "~")):
        if path.is_absolute() and path.is_relative_to(base):
            return f"{mark}/{path.relative_to(base)}"
    return source
