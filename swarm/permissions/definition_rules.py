"""Derives rules from an agent's definition. They only deny or ask, whatever the definition's source.

`tools: Bash(git log:*)` limits Bash to that command, `disallowedTools: Bash(rm *)` denies it, `tools: Agent(explore, plan)`
allows only these types, and OpenCode's `ask` asks. A definition never saves an approval.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from swarm.definitions.mcp.servers import PREFIX, Server, tool_name
from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import EDIT, all_rows, matches_tool, row_of
from swarm.permissions.opencode_rules import read_opencode_entries
from swarm.permissions.rules import InvalidRule, Rule, Rules, parse_rule


def definition_rules(definition: AgentDefinition) -> Rules:
    """Return the rules of a definition that deny or ask; the filter also removes whole tools."""
    source = f"the definition {definition.name}"
    rules: list[Rule] = []
    for entry in definition.disallowed_tools:
        tool, spec = split_pattern(canonical_tool(entry))
        rules.append(_deny(entry, source) if spec is not None else Rule(action="deny", tool=tool, source=source))
    if definition.tools is not None:
        rules.extend(_limit(definition.tools, source))
    rules.extend(rule for rule in read_opencode_entries(definition.permission, source) if rule.action != "allow")
    rules.extend(rule for rule in server_rules(definition.servers).rules if rule.action != "allow")
    return Rules(rules=tuple(dict.fromkeys(rules)))


def server_rules(servers: Iterable[Server]) -> Rules:
    """Return the rules in the configurations of MCP servers, which a person approved with the server."""
    rules: list[Rule] = []
    for server in servers:
        source = f"the MCP server {server.name} ({server.source})"
        named = {tool: word for tool, word in server.approvals.items() if tool != "*"}
        for tool, word in named.items():
            if word != "auto":
                rules.append(Rule(action=word, tool=tool_name(server.name, tool), source=source))
        general = server.approvals.get("*", "auto")
        if general != "auto":
            others = tuple(tool_name(server.name, tool) for tool in named)
            every = f"{PREFIX}{server.key}__*"
            rules.append(Rule(action=general, tool=every, source=source, unless=others))
    return Rules(rules=tuple(rules))


def _deny(entry: str, source: str) -> Rule:
    try:
        return parse_rule(entry, "deny", source)
    except InvalidRule:
        # An invalid entry denies the whole tool, because its author meant to forbid something.
        return Rule(action="deny", tool=split_pattern(canonical_tool(entry))[0], source=source)


def _limit(tools: list[str], source: str) -> list[Rule]:
    entries = [split_pattern(canonical_tool(entry)) for entry in tools]
    whole = [tool for tool, spec in entries if spec is None]
    limited: dict[str, list[str]] = {}
    for tool, spec in entries:
        if spec is not None and not any(fnmatchcase(tool, pattern) for pattern in whole):
            limited.setdefault(tool, []).extend(_kept(tool, spec, source))
    rules = [Rule(action="deny", tool=tool, source=source, unless=tuple(kept)) for tool, kept in limited.items()]
    named = [tool for tool, _ in entries]
    editing = [row.name for row in all_rows() if row.writes_files]
    shell_limited = any(row_of(tool).matching == "command" for tool in limited)
    if shell_limited and not any(matches_tool(name, edit) for edit in editing for name in named):
        # Redirected output is an edit, and this agent has no tool to edit.
        rules.append(Rule(action="deny", tool=EDIT, source=source))
    return rules


def _kept(tool: str, spec: str, source: str) -> list[str]:
    """Return the entries that a limit leaves: one, or each command of `Bash(git log:*, git diff:*)`."""
    specs = (
        [part.strip() for part in spec.split(",")] if row_of(tool).matching == "command" and ", " in spec else [spec]
    )
    kept = []
    for part in specs:
        try:
            kept.append(parse_rule(f"{tool}({part})", "allow", source).text)
        except InvalidRule:
            continue  # leaves less
    return kept
