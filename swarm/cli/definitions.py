"""`swarm agents`: which types of agents exist here, where they come from, and what they may use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import new_table, one_line, output_console, print_json, print_note
from swarm.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarm.definitions.model import AgentDefinition

group = typer.Typer(rich_markup_mode=None, help="List the types of agents, or check the files they are defined in.")


@group.callback(invoke_without_command=True)
def list_agents(ctx: typer.Context, workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List the types of agents that apply in a workspace; problems with their files go to stderr."""
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
    for problem in catalogue.problems:
        print_note(f"problem: {problem}")


@group.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A definition file, or a folder of them.")],
    as_json: JsonOption = False,
) -> None:
    """Read definition files and say what is wrong with them; exit code 1 if anything is."""
    from swarm.definitions.catalogue import check_path

    if not path.exists():
        raise ConfigurationError(f"{path} does not exist; name a definition file, or a folder of them")
    result = check_path(path)
    if as_json:
        agents = [_describe(definition) for definition in result.definitions]
        print_json({"agents": agents, "problems": [problem.model_dump() for problem in result.problems]})
    else:
        _print_definitions(result.definitions, path if path.is_dir() else path.parent)
    for definition in result.definitions:
        for warning in definition.warnings:
            print_note(f"warning: {definition.name} ({definition.source}): {warning}")
    for problem in result.problems:
        print_note(f"problem: {problem}")
    if not result.definitions and not result.problems:
        raise ConfigurationError(f"{path} holds no agent definition that any supported format would have")
    if result.problems:
        raise typer.Exit(1)


def allowed_tools(definition: AgentDefinition) -> list[str]:
    """The tools it gets where it usually stands: as the first agent of a job, or one level below."""
    from swarm.agent.life import SPAWN_TOOL
    from swarm.agent.spec import Limits
    from swarm.permissions.filter import filter_tools
    from swarm.tools.registry import builtin_tools

    is_root = definition.mode == "primary"
    return filter_tools(
        [*builtin_tools(), SPAWN_TOOL],
        definition,
        depth=0 if is_root else 1,
        max_depth=Limits().max_depth,
        is_root=is_root,
        background=definition.background and not is_root,
    )


def _describe(definition: AgentDefinition) -> dict[str, Any]:
    return {**definition.model_dump(exclude={"prompt"}), "allowed_tools": allowed_tools(definition)}


def _print_definitions(definitions: Sequence[AgentDefinition], folder: Path) -> None:
    if not definitions:
        return
    console = output_console()
    table = new_table("type", "started by", "model", "tools", "source")
    for definition in definitions:
        starters = {"primary": "a person", "subagent": "agents", "all": "both"}[definition.mode]
        table.add_row(
            definition.name,
            starters,
            definition.model or "(settings)",
            ", ".join(allowed_tools(definition)) or "none",
            _shorten_source(definition.source, folder),
        )
    console.print(table)
    if console.is_terminal:
        for definition in definitions:
            console.print(f"\n{definition.name}: {one_line(definition.description, 300)}")


def _shorten_source(source: str, folder: Path) -> str:
    path = Path(source)
    for base, mark in ((folder, "."), (Path.home(), "~")):
        if path.is_absolute() and path.is_relative_to(base):
            return f"{mark}/{path.relative_to(base)}"
    return source
