"""`swarm agents`: the agent types of a workspace, their sources and permissions.

The result goes to stdout; problems, hidden types and partly understood ones go to stderr.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.agent.spec import AgentSpec, Limits
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import one_line, output_console, print_json, print_note
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import is_trusted
from swarm.core.errors import ConfigurationError
from swarm.core.settings import load_settings
from swarm.definitions.catalogue import check_path, load_catalogue
from swarm.definitions.mcp.reader import explain_absent, load_servers
from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import split_pattern
from swarm.definitions.sources import Problem
from swarm.definitions.tools import known_tools, row_of
from swarm.permissions.filter import Situation, explain_tools
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.runtime.request_prefix import choose_tools
from swarm.tools.outside import declare_outside_tools

group = typer.Typer(rich_markup_mode=None, add_completion=False)


@group.callback(invoke_without_command=True)
def list_agents(
    ctx: typer.Context,
    workspace: WorkspaceOption = Path(),
    context: Annotated[
        bool,
        typer.Option("--context", help="Show the initial context of each, in tokens."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the types of agents, or check the files they are defined in.

    For each type in a workspace, the list shows its permissions and its source.
    """
    if ctx.invoked_subcommand is not None:
        return

    settings = load_settings()
    declare_outside_tools(settings.tools)
    folder = find_workspace(workspace)
    if context:
        from swarm.cli.context_view import show_context  # loads the tools, which listing does not need

        show_context(folder, settings, as_json=as_json)
        return
    trusted = is_trusted(folder, settings)
    catalogue = load_catalogue(folder, trusted=trusted)
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
    for grant in () if trusted else catalogue.grants:
        print_note(f"not trusted: {grant.text} ({_shorten(grant.source, folder)}); `swarm trust` lets it count")
    for shadow in catalogue.shadowed:
        hidden, by = _shorten(shadow.source, folder), _shorten(shadow.hidden_by, folder)
        print_note(f"hidden: {shadow.name} of {hidden}, by {by}")
    _print_problems(catalogue.problems, folder)
    configured = load_servers(folder, Path.home(), trusted=trusted)
    for definition in definitions:
        if lack := explain_absent(definition, configured, catalogue.unapproved):
            print_note(f"note: {definition.name}: {lack}")
    if doubtful := [definition for definition in definitions if definition.warnings]:
        example = shlex.quote(os.path.relpath(doubtful[0].source))
        print_note(f"{len(doubtful)} of them understood only in part; `swarm agents check {example}` explains")


@group.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A definition file, or a folder of them.")],
    as_json: JsonOption = False,
) -> None:
    """Explain problems of definition files, with places and remedies. Exit code 1 if one cannot be used."""
    if not path.exists():
        raise ConfigurationError(f"{path} does not exist; name a definition file, or a folder of them")
    result = check_path(path)
    folder = Path.cwd()
    if as_json:
        agents = [_describe(definition) for definition in result.definitions]
        print_json({"agents": agents, "problems": [problem.model_dump() for problem in result.problems]})
    else:
        _print_definitions(result.definitions, folder)
    configured = load_servers(folder, Path.home(), trusted=is_trusted(folder, load_settings()))
    for definition in result.definitions:
        place = f"{_shorten(definition.source, folder)}: {definition.name}"
        for warning in definition.warnings:
            print_note(f"warning: {place}: {warning}")
        if lack := explain_absent(definition, configured):
            print_note(f"note: {place}: {lack}")
        for tool, reason in withheld_tools(definition).items():
            print_note(f"note: {place}: {tool} is listed but withheld: {reason}")
    for name, source in result.disabled.items():
        print_note(f"note: {_shorten(source, folder)}: {name!r} is switched off")
    _print_problems(result.problems, folder)
    if not (result.definitions or result.problems or result.disabled):
        raise ConfigurationError(f"{path} holds no agent definition in a supported format")
    doubtful = sum(1 for definition in result.definitions if definition.warnings)
    print_note(
        f"{len(result.definitions)} can be used ({doubtful} understood only in part), {len(result.problems)} cannot"
    )
    if result.problems:
        raise typer.Exit(1)


def allowed_tools(definition: AgentDefinition) -> list[str]:
    """The definition's tools on this host, as a job's first agent or one level below."""
    place = _usual_place(definition)
    spec = AgentSpec(
        **{
            "agent_id": "agent",
            "job_id": "job",
            "parent_id": None if place.is_root else "parent",
            "depth": place.depth,
        },
        **{"definition": definition, "mode": definition.permission_mode, "background": place.background},
        **{"description": definition.name, "prompt": "", "model": "", "workspace": ""},
    )
    return [tool.name for tool in choose_tools(spec, [], sandboxed=place.sandbox, person_there=True)]


def withheld_tools(definition: AgentDefinition) -> dict[str, str]:
    """Tools that the definition names but does not get, each with the reason."""
    wanted = dict.fromkeys(split_pattern(entry)[0] for entry in definition.tools or [])
    known = [tool for tool in wanted if tool in known_tools()]
    absent = {tool: "it is not offered here" for tool in known if not row_of(tool).home}
    return absent | dict(explain_tools(known, _usual_place(definition)))


def _usual_place(definition: AgentDefinition) -> Situation:
    is_root = definition.mode == "primary"
    return Situation(
        definition=definition,
        depth=0 if is_root else 1,
        max_depth=Limits().max_depth,
        is_root=is_root,
        background=definition.background and not is_root,
        sandbox=isinstance(choose_backend(load_settings().sandbox), Backend),
    )


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
    table_of_definitions(folder).print(definitions, console)
    if console.is_terminal:
        for definition in definitions:
            console.print(f"\n{definition.name}: {one_line(definition.description, 300)}")


def table_of_definitions(folder: Path) -> Listing[AgentDefinition]:
    """A table with one row per agent type."""
    return Listing[AgentDefinition](
        Column("type", lambda one: one.name),
        Column("started by", _describe_starters, drop=2),
        Column("model", lambda one: one.model or "(settings)", drop=3),
        Column("files", lambda one: _describe_access(one, allowed_tools(one)), drop=1),
        Column("mode", _describe_mode, drop=4),
        Column("tools", lambda one: ", ".join(allowed_tools(one)) or "none", drop=6, flexible=True),
        Column("source", lambda one: _shorten(one.source, folder), drop=5),
    )


def _describe_starters(definition: AgentDefinition) -> str:
    return "a person" if definition.mode == "primary" else "both" if definition.may_be_first else "agents"


def _describe_mode(definition: AgentDefinition) -> str:
    words = (definition.permission_mode, "background" * definition.background, definition.isolation)
    return ", ".join(filter(None, words))


def _describe_access(definition: AgentDefinition, tools: Sequence[str]) -> str:
    """Describe the file access of these tools; a shell counts as writing unless it is confined to reading."""
    rows = [row_of(tool) for tool in tools]
    held = definition.read_only or definition.permission_mode == "plan"
    if any(row.writes_files or (row.needs_shell and not held) for row in rows):
        return "write"
    return "read" if any(row.matching == "read" for row in rows) else "none"


def _print_problems(problems: Sequence[Problem], folder: Path) -> None:
    for problem in problems:
        print_note(f"problem: {problem.model_copy(update={'path': _shorten(problem.path, folder)})}")


def _shorten(source: str, folder: Path) -> str:
    path = Path(source)
    for base, mark in ((folder, "."), (Path.home(), "~")):
        if path.is_absolute() and path.is_relative_to(base):
            return f"{mark}/{path.relative_to(base)}"
    return source
