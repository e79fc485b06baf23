"""`swarm tools`: the tools for agents here, their sources, their schemas, and rules about them.

The result goes to stdout; problems of custom tools go to stderr.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import one_line, plain, print_json, print_line, print_note
from swarm.cli.tables import Column, Listing
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.core.errors import ConfigurationError, SwarmError
from swarm.core.settings import Settings, load_settings
from swarm.definitions.names import canonical_tool
from swarm.definitions.tools import Kind, ToolRow, all_rows, row_of
from swarm.tools import Tool
from swarm.tools.outside import find_outside_tools
from swarm.tools.registry import load_tool, version_of

_EFFECTS = {
    Kind.LOOK: "none",
    Kind.EFFECT: "once",
    Kind.IDEMPOTENT: "idempotent",
    Kind.SHARED: "in the job",
    Kind.ASK: "asks",
    Kind.SPAWN: "starts agents",
    Kind.AGENTS: "other agents",
    Kind.SEND: "messages",
    Kind.WAIT: "waits",
}
_BUILT_IN = "built in"


@dataclass(frozen=True)
class _Known:
    row: ToolRow
    tool: Tool

    @property
    def effects(self) -> str:
        """The effects of its calls, in words."""
        return _EFFECTS[self.row.kind]


def show_tools(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show all details of this tool.")] = None,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """List the tools for agents, with their sources; with a name, show its schema and rules.

    Custom tools come from installed packages and from `SWARM_TOOLS` on this machine; a fleet's workers may have others.
    """
    settings = load_settings()
    faults = find_outside_tools(settings.tools)
    tools = [_Known(row, load_tool(row.home)) for row in all_rows() if row.home]
    if name is None:
        _TOOLS.show(tools, as_json=as_json)
    else:
        _show(_find(name, tools), _rules_about(name, workspace, settings), _versions(name, settings), as_json=as_json)
    for fault in faults:
        print_note(f"problem: {fault}")


def _find(name: str, tools: list[_Known]) -> _Known:
    found = {known.row.name: known for known in tools}
    canonical = canonical_tool(name)
    if canonical in found:
        return found[canonical]
    near = difflib.get_close_matches(name, found, n=1)
    meant = f"; did you mean {near[0]}?" if near else ";"
    raise ConfigurationError(f"no tool is called {name!r} here{meant} `swarm tools` lists them")


def _rules_about(name: str, workspace: Path, settings: Settings) -> list[str]:
    """Rules of the workspace that name the tool, each with its source."""
    try:
        order = Order(prompt="(only explained)", agent="build", workspace=workspace, home_workspace=True)
        rules = prepare_order(order, settings, any_type=True).rules
    except SwarmError as error:  # unusable tools are reported in any case
        return [f"unknown: {error}"]
    about = canonical_tool(name)
    return [f"{rule.action} {rule.text} ({rule.source})" for rule in rules.rules if rule.names(about)]


def _versions(name: str, settings: Settings) -> dict[str, str]:
    """Offered versions of a custom tool, per worker."""
    from swarm.agent.needs import offer
    from swarm.client.swarm import Swarm
    from swarm.local.redis_server import read_redis_status

    if not row_of(canonical_tool(name)).origin or not read_redis_status(settings).running:
        return {}
    wanted = offer("tool", canonical_tool(name))
    return {worker: has.offers[wanted] for worker, has in Swarm(settings).fleet().items() if wanted in has.offers}


def _describe(known: _Known) -> dict[str, Any]:
    row = known.row
    return {
        "name": row.name,
        "source": row.origin or _BUILT_IN,
        "home": row.home,
        "effects": known.effects,
        "network": row.network,
        "sandboxed": row.sandboxed,
        "timeout_seconds": row.timeout_seconds,
        "subject": row.subject,
        "aliases": row.aliases.split(),
        "needs": list(row.tags),
        "version": version_of(known.tool),
        "description": known.tool.description,
        "input_schema": known.tool.input_schema,
    }


_TOOLS = Listing[_Known](
    Column("tool", lambda known: known.row.name),
    Column("source", lambda known: known.row.origin or _BUILT_IN, drop=1),
    Column("effects", lambda known: known.effects, drop=2),
    Column("network", lambda known: "yes" if known.row.network else "", drop=3),
    Column("what it does", lambda known: one_line(known.tool.description, 200), drop=4, flexible=True),
    describe=_describe,
)


def _show(known: _Known, rules: list[str], versions: dict[str, str], *, as_json: bool) -> None:
    about = _describe(known)
    if as_json:
        print_json({**about, "rules": rules, "workers": versions})
        return
    facts = {
        "source": f"{about['source']} ({about['home']})",
        "effects": about["effects"] + (", in the sandbox" if about["sandboxed"] else ""),
        "network": "yes" if about["network"] else "no",
        "time": f"{about['timeout_seconds']:g} s" if about["timeout_seconds"] else "",
        "about": f"{about['subject']}: rules are written {about['name']}(PATTERN)" if about["subject"] else "",
        "also": ", ".join(about["aliases"]),
        "needs": ", ".join(about["needs"]),
        "version": about["version"],
        "workers": "; ".join(f"{worker} has {version}" for worker, version in versions.items()),
        "rules": "; ".join(rules) or "none: its mode decides",
    }
    print_line(about["name"])
    print_line("")
    print_line(plain(about["description"]))
    print_line("")
    for fact, text in facts.items():
        if text:
            print_line(f"{fact:<8} {plain(text)}")
    print_line("")
    print_line(json.dumps(about["input_schema"], indent=2, ensure_ascii=False))
