"""Translates OpenCode's `permission` table into rules.

In OpenCode the last matching entry decides; here deny beats ask, and ask beats allow, in any order. Each entry
therefore gets the later and milder entries as its exceptions, which is equivalent. If a pattern has no
exact counterpart, the translation denies or asks about more and allows less.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swarm.definitions.names import canonical_tool, is_elsewhere, is_known_tool, split_pattern
from swarm.definitions.sources import Unusable, show
from swarm.definitions.tools import EDIT, READ, Kind, all_rows, row_of
from swarm.permissions.path_rules import escape_path
from swarm.permissions.rules import Action, InvalidRule, Rule, parse_rule

_SEVERITY: Mapping[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
_ACTIONS: Mapping[str, Action] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_SITUATIONS: Mapping[str, str] = {
    "external_directory": "Agents here never leave their workspace and its further folders",
    "doom_loop": "An agent that is denied the same thing repeatedly is stopped here, and every agent has a limit of turns",
}
"""Keys for situations instead of tools, with the reason why they are not needed here."""
_MAX_STARS = 3


@dataclass(frozen=True)
class _RuleEntry:
    tool: str
    pattern: str
    action: Action


def read_opencode_permission(*values: Any, source: str) -> tuple[list[Rule], list[Unusable]]:
    """Return the rules of `permission` and `permissions`, in order, and the problems of their unusable parts."""
    listed = [_list_entries(value) for value in values if value is not None]
    entries, problems = [one for found, _ in listed for one in found], [one for _, faults in listed for one in faults]
    return _translate(entries, source), problems


def read_opencode_entries(entries: Iterable[tuple[str, str, str]], source: str) -> list[Rule]:
    """Return the rules for a definition's entries: tool, pattern, action."""
    known = [
        _RuleEntry(tool, pattern, _ACTIONS.get(action, "deny"))
        for key, pattern, action in entries
        for tool in _tools_meant(key)[0]
    ]
    return _translate(known, source)


def _translate(entries: list[_RuleEntry], source: str) -> list[Rule]:
    rules: list[Rule] = []
    for index, entry in enumerate(entries):
        milder = [other for other in entries[index + 1 :] if _SEVERITY[other.action] < _SEVERITY[entry.action]]
        if any(_includes(other, entry) for other in milder):
            continue
        unless = [text for other in milder for text in _as_exceptions(other, entry, source)]
        if entry.tool == "*" and entry.action != "allow":
            # The runtime's internal tools have no counterpart in OpenCode, so its `*` does not cover them.
            unless.extend(row.name for row in all_rows() if row.is_internal and row.kind is not Kind.SPAWN)
        for tool, spec in _as_specs(entry):
            if entry.action == "allow":
                rules.extend(_allow(tool, spec, source))
            else:
                rule = Rule(action=entry.action, tool=tool, spec=spec, source=source, unless=tuple(unless))
                rules.append(rule)
    return list(dict.fromkeys(rules))


def _list_entries(value: Any) -> tuple[list[_RuleEntry], list[Unusable]]:
    if isinstance(value, list):
        return _list_rules(value)
    tables = {"*": value} if isinstance(value, str) else value
    if not isinstance(tables, Mapping):
        return [], [Unusable("`permission` is neither an action nor a table", 'Write for example {"edit": "ask"}.')]
    problems: list[Unusable] = []
    entries: list[_RuleEntry] = []
    for key, rule in tables.items():
        words = rule if isinstance(rule, Mapping) else {"*": rule}
        if key not in _SITUATIONS:
            entries += (entry for item in words.items() for entry in _read_entry(key, *item, problems))
        elif any(_ACTIONS.get(str(word)) != "allow" for word in words.values()):
            problems.append(Unusable(f"`permission.{key}` has no effect", f"{_SITUATIONS[key]}."))
    return entries, problems


def _read_entry(key: Any, pattern: Any, word: Any, problems: list[Unusable]) -> Iterator[_RuleEntry]:
    action = _ACTIONS.get(word.strip().lower()) if isinstance(word, str) else None
    if action is None or not isinstance(pattern, str) or "\n" in pattern:
        what = f"the permission of {show(key)} for {show(pattern)} is {show(word)}"
        problems.append(Unusable(what, "Write allow, ask or deny; until then it is denied."))
        action = "deny"
    tools, known = _tools_meant(str(key))
    if not known and not is_elsewhere(str(key)):
        problems.append(Unusable(f"the tool {show(key)} is not known here", "Check its spelling; it is kept."))
    return (_RuleEntry(tool, str(pattern).replace("\n", "*"), action) for tool in tools)


def _list_rules(rules: list[Any]) -> tuple[list[_RuleEntry], list[Unusable]]:
    """List the entries of OpenCode 2's `permissions`; an unusable one denies its resource."""
    entries: list[_RuleEntry] = []
    problems: list[Unusable] = []
    for rule in rules:
        table = rule if isinstance(rule, Mapping) else {}
        name, pattern, word = (table.get(key, "*") for key in ("action", "resource", "effect"))
        found, faults = _list_entries({str(name): {str(pattern): word if table else None}})
        entries += found
        problems += faults
    return entries, problems


def _tools_meant(key: str) -> tuple[list[str], bool]:
    if key == "*":
        return ["*"], True
    tool = split_pattern(canonical_tool(key))[0]
    if row_of(tool).writes_files:
        return [EDIT], True  # a rule for one editing tool covers all
    if is_known_tool(tool):
        return [tool], True
    # An MCP server's tool is `server_tool` in OpenCode and `mcp__server__tool` here.
    return [tool, "mcp__" + tool.replace("_", "_*")], "_" in tool


def _includes(later: _RuleEntry, earlier: _RuleEntry) -> bool:
    """Report whether `later` decides every call that `earlier` matches."""
    return later.tool in ("*", earlier.tool) and later.pattern in ("*", earlier.pattern)


def _as_exceptions(entry: _RuleEntry, outer: _RuleEntry, source: str) -> Iterable[str]:
    """Return a milder entry's exceptions to a stricter one before it; they match at most the milder entry's calls."""
    if outer.tool not in ("*", entry.tool) and entry.tool != "*":
        return
    tool = outer.tool if entry.tool == "*" else entry.tool
    narrow = _RuleEntry(tool, entry.pattern, "allow")
    for name, spec in _as_specs(narrow):
        if tool == "*":
            if spec is None:
                yield "*"
            continue
        if name in (EDIT, READ) and spec is not None and not re.search(r"\.[^/]*$|\*$", spec):
            continue  # a folder would also exclude files below it, unlike in OpenCode
        for rule in _allow(name, spec, source):
            # OpenCode's `edit` covers the whole family, whose tools have separate names here.
            for member in [row.name for row in all_rows() if row.writes_files] if name == EDIT else [name]:
                yield member if rule.spec is None else f"{member}({rule.spec})"


def _allow(tool: str, spec: str | None, source: str) -> list[Rule]:
    """Return the allow rule, if there is one that does not allow more than the entry."""
    if tool == "*":
        return [Rule(action="allow", tool="*", source=source)] if spec is None else []
    if tool == EDIT and spec is None:
        # OpenCode's `edit` covers the whole family, whose tools have separate names here.
        return [Rule(action="allow", tool=row.name, source=source) for row in all_rows() if row.writes_files]
    if "*" in tool and not re.match(r"mcp__[^*]+__", tool):
        return []
    try:
        rule = parse_rule(tool if spec is None else f"{tool}({spec})", "allow", source)
    except InvalidRule:
        return []
    if spec is not None and (row_of(tool).writes_files or tool == READ) and not spec.endswith("*"):
        # As in a .gitignore, a folder's name would include the files below it.
        rule = rule.model_copy(update={"unless": (f"{tool}({spec}/**)",)})
    return [rule]


def _as_specs(entry: _RuleEntry) -> list[tuple[str, str | None]]:
    """Return the tool with specs equivalent to the entry's pattern; empty if they cannot be allowed."""
    strict = entry.action != "allow"
    pattern = re.sub(r"\*+", "*", entry.pattern.strip())
    if pattern == "*":
        return [(entry.tool, None)]
    matching = row_of(entry.tool).matching
    if matching == "command":
        return [(entry.tool, _command_spec(pattern, strict))]
    if entry.tool in (EDIT, READ):
        specs = _path_specs(pattern, strict)
        return [(entry.tool, None)] if specs is None and strict else [(entry.tool, spec) for spec in specs or []]
    if matching == "type" and re.fullmatch(r"[\w*?][\w.*?-]*", pattern):
        return [(entry.tool, pattern)]
    if matching == "name" and not re.search(r"[:\[\]()]", pattern):
        return [(entry.tool, pattern)]
    # OpenCode matches Grep and Glob by their search pattern, WebFetch by its URL.
    return [(entry.tool, None)] if strict else []


def _command_spec(pattern: str, strict: bool) -> str:
    if strict:
        pattern = pattern.replace("?", "*")
    # A trailing `:*` would mean any arguments here.
    return f"{pattern}*" if pattern.endswith(":*") else pattern


def _path_specs(pattern: str, strict: bool) -> list[str] | None:
    """Translate path patterns. OpenCode's `*` spans folders, so each becomes two specs; None if there are too many."""
    prefix = "/"
    for start, replacement in (("~/", "~/"), ("$HOME/", "~/"), ("/", "//"), ("./", "/")):
        if pattern.startswith(start):
            prefix, pattern = replacement, pattern[len(start) :]
            break
    if strict:
        pattern = pattern.replace("?", "*")
    pieces = pattern.split("*")
    if len(pieces) - 1 > _MAX_STARS or not pattern or (not strict and "?" in pattern) or ".." in pattern:
        return None
    joints = itertools.product(("*", "*/**/*"), repeat=len(pieces) - 1)
    specs = []
    for chosen in joints:
        text = escape_path(pieces[0])
        for joint, piece in zip(chosen, pieces[1:], strict=True):
            text += joint + escape_path(piece)
        specs.append(prefix + text)
    return specs
