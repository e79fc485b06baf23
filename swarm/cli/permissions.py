"""`swarm permissions`: which rules hold in a workspace, where each is from, and what would become of a call."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarm.cli.options import (
    AllowOption,
    AskOption,
    DenyOption,
    JsonOption,
    ModeOption,
    NetworkOption,
    WorkspaceOption,
)
from swarm.cli.output import new_table, one_line, output_console, plain, print_json, print_note, show_number
from swarm.errors import ConfigurationError

if TYPE_CHECKING:
    from swarm.definitions.model import AgentDefinition, PermissionMode
    from swarm.permissions.judge import Verdict
    from swarm.permissions.rules import Rule, Rules
    from swarm.permissions.sources import PermissionSettings

_ORDER = ("deny", "ask", "allow")
_MAIN_PARAMETERS = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "NotebookEdit": "notebook_path",
    "LS": "path",
    "Glob": "pattern",
    "Grep": "pattern",
    "WebFetch": "url",
    "Agent": "subagent_type",
}


def show_permissions(
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Explain a call of this tool.")] = None,
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="[INPUT]", help="Its input: JSON, or just the command, path, address or type that it is about."
        ),
    ] = None,
    workspace: WorkspaceOption = Path(),
    agent: Annotated[
        str, typer.Option("--agent", "-a", metavar="TYPE", help="Type of the agent that would make the call.")
    ] = "build",
    mode: ModeOption = None,
    allow: AllowOption = None,
    ask: AskOption = None,
    deny: DenyOption = None,
    network: NetworkOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the permission rules that hold in a workspace; with a tool, say what becomes of a call.

    Deny goes before ask, ask before allow; what no rule decides, the mode does. For a call the answer is as on this machine, with
    or without its sandbox.
    """
    from swarm.client import DEFAULT_MODE
    from swarm.definitions.catalogue import load_catalogue
    from swarm.permissions.definition_rules import definition_rules
    from swarm.permissions.modes import at_most
    from swarm.permissions.sources import load_permission_settings

    folder = workspace.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"the workspace {folder} is not a folder; name one that exists with --workspace")
    definition = load_catalogue(folder).get(agent)
    settings = load_permission_settings(folder, Path.home(), allow=allow or (), ask=ask or (), deny=deny or ())
    rules = settings.rules + definition_rules(definition)
    most: PermissionMode = (mode.value if mode else None) or settings.default_mode or DEFAULT_MODE
    held = most if definition.permission_mode == "default" else at_most(definition.permission_mode, most)
    if tool is None:
        _list(settings, rules, held, as_json=as_json)
    else:
        _explain(tool, given, rules, held, folder, definition, network=network, as_json=as_json)
    for problem in settings.problems:
        print_note(f"problem: {problem}")


# -- the rules ---------------------------------------------------------------------------------------------


def _list(settings: PermissionSettings, rules: Rules, mode: PermissionMode, *, as_json: bool) -> None:
    ordered = sorted(rules.rules, key=lambda rule: _ORDER.index(rule.action))
    if as_json:
        print_json(
            {
                "mode": mode,
                "rules": [_describe_rule(rule) for rule in ordered],
                "additional_directories": list(settings.additional_directories),
                "problems": [problem.model_dump() for problem in settings.problems],
            }
        )
        return
    table = new_table("action", "rule", "of")
    for rule in ordered:
        unless = f" unless {', '.join(rule.unless)}" if rule.unless else ""
        table.add_row(rule.action, one_line(f"{rule.text}{unless}", 200), one_line(rule.source))
    if ordered:
        output_console().print(table)
    print_note(f"{show_number(len(ordered), 'rule')}; what none decides, the mode {mode} does")
    for extra in settings.additional_directories:
        print_note(f"reachable beside the workspace: {plain(extra)}")


def _describe_rule(rule: Rule) -> dict[str, Any]:
    return {"action": rule.action, "rule": rule.text, "unless": list(rule.unless), "source": rule.source}


# -- one call ----------------------------------------------------------------------------------------------


def _explain(
    tool: str,
    text: str | None,
    rules: Rules,
    mode: PermissionMode,
    folder: Path,
    definition: AgentDefinition,
    *,
    network: bool,
    as_json: bool,
) -> None:
    from swarm.definitions.names import canonical_tool, is_known_tool
    from swarm.permissions.judge import judge
    from swarm.permissions.modes import always_rule
    from swarm.permissions.rules import Rules
    from swarm.permissions.sandbox import Backend, choose_backend
    from swarm.settings import load_settings
    from swarm.tools.registry import builtin_tools

    name = canonical_tool(tool)
    given = _read_input(name, text)
    backend = choose_backend(load_settings().sandbox)
    sandboxed = isinstance(backend, Backend)
    known = builtin_tools().get(name)

    def decide(holding: Rules) -> Verdict:
        return judge(
            name,
            given,
            rules=holding,
            mode=mode,
            workspace=folder,
            effects=known is None or known.effects,
            sandboxed=sandboxed and not (network or definition.network),
            read_only_sandbox=sandboxed and (definition.read_only or mode == "plan"),
        )

    verdict = decide(rules)
    narrow = always_rule(name, given, workspace=folder)
    lasting = (
        narrow.text if verdict.action == "ask" and decide(rules + Rules(rules=(narrow,))).action == "allow" else ""
    )
    if as_json:
        print_json(_describe_verdict(verdict, mode, lasting, sandboxed=sandboxed))
        return
    typer.echo(f"{verdict.action}: {plain(verdict.reason)}")
    where = (
        f"in the sandbox {backend.name}" if isinstance(backend, Backend) else f"without a sandbox ({backend.reason})"
    )
    print_note(f"for an agent of the type {definition.name}, in the mode {mode}, {where}")
    if lasting:
        print_note(f"what would allow it: --allow {shlex.quote(lasting)}")
    if not is_known_tool(name):
        print_note(f"note: there is no tool {plain(name)} here")


def _describe_verdict(verdict: Verdict, mode: PermissionMode, lasting: str, *, sandboxed: bool) -> dict[str, Any]:
    return {
        "action": verdict.action,
        "reason": verdict.reason,
        "rule": None if verdict.rule is None else _describe_rule(verdict.rule),
        "allowed_by": lasting,
        "mode": mode,
        "sandboxed": sandboxed,
    }


def _read_input(tool: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    main = _MAIN_PARAMETERS.get(tool)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    if main is None:
        raise ConfigurationError(f'the input of {tool} must be a JSON object, such as \'{{"name": "value"}}\'')
    return {main: text}
