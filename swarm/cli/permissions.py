"""`swarm permissions`: a workspace's rules, their sources, and the verdict on a call."""

from __future__ import annotations

import difflib
import json
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.order_options import order_options
from swarm.cli.output import plain, print_json, print_line, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.order import Order, read_order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings, load_settings
from swarm.definitions.model import PermissionMode
from swarm.definitions.names import canonical_tool
from swarm.definitions.tools import all_rows, known_tools, row_of
from swarm.permissions.judge import JudgedCall, Judgement, find_plain_look, judge
from swarm.permissions.lasting_rules import always_rule
from swarm.permissions.rules import Rule, Rules
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.permissions.shell.patterns import escape_pattern
from swarm.runtime.approvals import describe_call
from swarm.runtime.request_prefix import choose_tools

_ORDER = ("deny", "ask", "allow")


@order_options(
    Order, {each.name for each in fields(Order)} - {"workspace", "agent", "mode", "allow", "ask", "deny", "network"}
)
def show_permissions(
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Explain a call of this tool.")] = None,
    given: Annotated[
        str | None,
        typer.Argument(metavar="[INPUT]", help="Its input: JSON, or only the command, path, address or type."),
    ] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="List a job's lasting approvals.")] = None,
    withdraw: Annotated[
        int | None, typer.Option("--withdraw", metavar="NUMBER", help="With --job: withdraw this approval.", min=1)
    ] = None,
    as_json: JsonOption = False,
    **asked: Any,
) -> None:
    """List a workspace's permission rules; with a tool, explain the verdict on a call.

    Deny comes before ask, ask before allow; the mode decides if no rule does. The verdict is for this machine, with or without its
    sandbox.
    """
    if job is not None or withdraw is not None:
        _list_lasting(job, withdraw, as_json=as_json)
        return
    order = read_order(Order, "(only explained)", home_workspace=True, **asked)  # only explained, never run
    settings = load_settings()
    prepared = prepare_order(order, settings, any_type=True)
    if tool is None:
        _list(prepared, as_json=as_json)
    else:
        _explain(tool, given, prepared, settings, as_json=as_json)
    for problem in prepared.permissions.problems:
        print_note(f"problem: {problem}")
    if prepared.ignored:
        print_note(f"note: {prepared.ignored}")


# -- the rules ---------------------------------------------------------------------------------------------


def _list(prepared: PreparedJob, *, as_json: bool) -> None:
    settings, mode = prepared.permissions, prepared.spec.mode
    ordered = sorted(prepared.rules.rules, key=lambda rule: _ORDER.index(rule.action))
    if as_json:
        print_json(
            {
                "mode": mode,
                "rules": [_describe_rule(rule) for rule in ordered],
                "problems": [problem.model_dump() for problem in settings.problems],
            }
        )
        return
    Listing[Rule](
        Column("action", lambda rule: rule.action),
        Column("rule", lambda rule: " unless ".join(filter(None, (rule.text, ", ".join(rule.unless))))),
        Column("of", lambda rule: rule.source, drop=1),
    ).show(ordered)
    print_note(f"{show_number(len(ordered), 'rule')}; otherwise the mode {mode} decides")


def _list_lasting(job: str | None, number: int | None, *, as_json: bool) -> None:
    """List a job's lasting approvals, with the numbers for withdrawing them."""
    if job is None:
        raise typer.BadParameter("name the job: --job JOB", param_hint="--withdraw")
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        rules = swarm.questions.lasting(found.id)
        if number is not None:
            if number > len(rules) or not swarm.questions.withdraw(found.id, rules[number - 1]):
                raise ConfigurationError(
                    f"{found.id} has no lasting approval {number}; `swarm permissions --job {found.id}`"
                )
            print_line(f"withdrawn: {plain(rules[number - 1].promise)}")
            return
    if as_json:
        print_json([{**_describe_rule(rule), "promise": rule.promise} for rule in rules])
        return
    for place, rule in enumerate(rules, 1):
        print_line(f"{place}. {plain(rule.promise)}")
    print_note(f"{show_number(len(rules), 'lasting approval')} in {found.id}, until it ends")


def _describe_rule(rule: Rule) -> dict[str, Any]:
    return {"action": rule.action, "rule": rule.text, "unless": list(rule.unless), "source": rule.source}


# -- one call ----------------------------------------------------------------------------------------------


def _explain(tool: str, text: str | None, prepared: PreparedJob, settings: Settings, *, as_json: bool) -> None:
    spec = prepared.spec
    name = canonical_tool(tool)
    if name not in known_tools() and not name.startswith("mcp__"):
        near = difflib.get_close_matches(name, known_tools(), n=3)
        raise ConfigurationError(f"there is no tool {tool!r}; {_list_tools(near)}")
    given = _read_input(name, text)
    backend = choose_backend(settings.sandbox)
    sandboxed = isinstance(backend, Backend)

    names = tuple(each for part in prepared.project.parts.values() for each in part.names_of(row_of(name), given))

    def describe(rules: Rules) -> JudgedCall:
        described = describe_call(name, given, spec, rules=rules, mode=spec.mode, sandboxed=sandboxed)
        return replace(described, names=names)

    def decide(rules: Rules) -> Judgement:
        return judge(describe(rules))

    verdict = decide(prepared.rules)
    looks = verdict.look and (sandboxed or find_plain_look(describe(prepared.rules)) is not None)
    narrow = always_rule(name, given, workspace=Path(spec.workspace))
    would_allow = verdict.action == "ask" and decide(prepared.rules + Rules(rules=(narrow,))).action == "allow"
    lasting = _to_allow(name, given, narrow) if would_allow else ""
    if as_json:
        print_json({**_describe_verdict(verdict, spec.mode, lasting, sandboxed=sandboxed), "look": looks})
        return
    if looks:
        how = "with files read-only and without network" if sandboxed else "without a shell, because it only reads"
        print_line(f"look: it is first run {how}; if that is not enough:")
    print_line(f"{verdict.action}: {plain(verdict.reason)}")
    where = (
        f"in the sandbox {backend.name}" if isinstance(backend, Backend) else f"without a sandbox ({backend.reason})"
    )
    print_note(f"for an agent of the type {spec.definition.name}, in the mode {spec.mode}, {where}")
    if lasting:
        print_note(f"to allow it: --allow {shlex.quote(lasting)}")
    has = choose_tools(spec, [], sandboxed=sandboxed, person_there=True)
    if name not in [one.name for one in has]:
        print_note(f"note: an agent of this type has no tool {plain(name)} here")


def _to_allow(name: str, given: dict[str, Any], narrow: Rule) -> str:
    """The rule that allows the call, as a person would write it; one for a kind of command would allow more."""
    if narrow.promise == narrow.text:
        return narrow.text
    return f"{name}({escape_pattern(str(given[row_of(name).subject]).strip())})"


def _list_tools(near: list[str]) -> str:
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"the tools are {', '.join(row.name for row in all_rows() if row.home)}"


def _describe_verdict(verdict: Judgement, mode: PermissionMode, lasting: str, *, sandboxed: bool) -> dict[str, Any]:
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

    main = row_of(tool).subject
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    if not main:
        raise ConfigurationError(f'the input of {tool} must be a JSON object, such as \'{{"name": "value"}}\'')
    return {main: text}
