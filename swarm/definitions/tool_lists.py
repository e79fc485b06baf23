"""Reads the tools that a definition allows and forbids, from any of the formats.

Claude Code lists names (`tools`, `disallowedTools`). OpenCode has a table of switches (`tools: {write:
false}`) and a table of rules (`permission: {bash: {"rm *": deny}}`). The result is two lists, and entries that are
judged at each call if the lists cannot express them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from swarm.definitions.names import canonical_tool, is_elsewhere, is_known_tool, is_tool_entry, split_pattern, suggest
from swarm.definitions.sources import Unusable, as_text, enumerate_briefly, show
from swarm.definitions.tools import EDIT, all_rows, is_mcp, known_tools, matches_tool, row_of

_NOT_TOOLS = frozenset({"external_directory", "doom_loop"})
"""OpenCode's permission keys for situations instead of tools. Agents here never leave their workspace anyway."""

_MAX_ENTRIES = 500
_LONGEST = 1_000

Entry = tuple[str, str, str]
"""One line of OpenCode's permissions: tool, pattern, action."""

_EVERY_TOOL = frozenset({"*", "all"})


@dataclass
class ToolLists:
    """The two lists while a definition is read; `tools=None` means all tools."""

    tools: list[str] | None = None
    disallowed: list[str] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)

    def read_tools(self, value: Any) -> None:
        """Read the names in `tools`. Raises `Unusable`."""
        if value is None or value == "":
            self._warn("`tools` is empty, which means every tool; write [] for none")
            self.tools = None
        else:
            self.tools = _read_entries("tools", value)
            if any(entry.lower() in _EVERY_TOOL for entry in self.tools):
                self.tools = None

    def read_disallowed(self, value: Any) -> None:
        """Read the names in `disallowedTools`. Raises `Unusable`."""
        if value is not None:
            self._disallow(*_read_entries("disallowedTools", value))

    def read_permission(self, entries: Sequence[Entry]) -> list[Entry]:
        """Reduce OpenCode's entries, of which the last match decides, to the lists; return entries for each call.

        Returns nothing if the lists express all entries. Raises `Unusable`.
        """
        if len(entries) > _MAX_ENTRIES:
            raise Unusable(f"it has more than {_MAX_ENTRIES} permissions", "Use wildcards.")
        # The last entry for every tool overrules all entries before it.
        start = max((index for index, (key, pattern, _) in enumerate(entries) if key == pattern == "*"), default=0)
        entries = entries[start:]
        denied = tuple(entries[:1]) == (("*", "*", "deny"),)
        groups: dict[tuple[str, ...], list[Entry]] = {}
        for entry in entries:
            if entry[0] != "*":
                groups.setdefault(tuple(_tools_meant(entry[0])), []).append(entry)
        usable = [tools for tools, about in groups.items() if not _is_denied_whole(about, denied)]
        if denied:
            allowed = (entry for tools in usable for entry in groups[tools] if entry[2] != "deny")
            # OpenCode's `write` means all editing, but as an exception to denied tools it means `Write` alone.
            self._allow_only(list(chain.from_iterable(_tools_granted(key) for key, _, _ in allowed)))
        else:
            self._disallow(*(tool for tools in groups if tools not in usable for tool in tools))
        told_by_tools = all(pattern == "*" and action != "ask" for _, pattern, action in entries)
        return [] if told_by_tools else list(entries)

    def finish(self) -> list[str]:
        """Check the lists and return the warnings; call it once, at the end. Raises `Unusable`."""
        self.disallowed = list(dict.fromkeys(self.disallowed))
        entries = [*(self.tools or []), *self.disallowed]
        if len(entries) > _MAX_ENTRIES:
            raise Unusable(f"it names more than {_MAX_ENTRIES} tools and patterns", "Use wildcards.")
        unknown = list(dict.fromkeys(entry for entry in entries if not is_known_tool(entry)))
        self._warn_about(unknown)
        if self.tools and not any(_is_offered(entry) for entry in self.tools):
            self._warn("no tool of its list is offered here; it works without tools")
        return self._warnings

    def _warn_about(self, unknown: list[str]) -> None:
        absent: list[str] = []
        strange: list[str] = []
        for entry in unknown:
            name, _ = split_pattern(entry)
            if is_elsewhere(name):
                # Forbidding a tool that does not exist needs no warning.
                absent.extend([show(name)] if entry in (self.tools or []) else [])
            elif hint := suggest(name, known_tools()):
                self._warn(f"unknown tool {show(entry)}{hint}; kept, in case a worker offers it")
            else:
                strange.append(show(entry))
        if absent:
            self._warn(f"not offered here and without effect: {enumerate_briefly(absent)}")
        if strange:
            self._warn(f"unknown tools, kept in case a worker offers them: {enumerate_briefly(strange)}")

    def _allow_only(self, names: list[str]) -> None:
        names = list(dict.fromkeys(names))
        self.tools = (
            names if self.tools is None else [entry for entry in self.tools if split_pattern(entry)[0] in names]
        )

    def _disallow(self, *entries: str) -> None:
        self.disallowed.extend(entries)

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)


def _tools_meant(key: str) -> list[str]:
    name = canonical_tool(key)
    # Editing is one permission in OpenCode, for its switches `edit`, `write` and `patch`.
    return [row.name for row in all_rows() if row.writes_files] if row_of(name).writes_files else [name]


def _is_offered(entry: str) -> bool:
    name = split_pattern(entry)[0]
    return is_mcp(name) or any(row.home and matches_tool(name, row.name) for row in all_rows())


def _tools_granted(key: str) -> list[str]:
    name = canonical_tool(key)
    return _tools_meant(key) if name == EDIT else [name]


def _is_denied_whole(entries: Iterable[Entry], denied: bool) -> bool:
    """Report whether the entries deny every use of a tool; `denied` is the state before them."""
    for _, pattern, action in entries:
        denied = action == "deny" and (denied or pattern == "*")
    return denied


def read_switches(switches: Mapping[Any, Any]) -> list[Entry]:
    """Read OpenCode's `tools: {name: bool}` as entries; the longest matching name decides. Raises `Unusable`."""
    entries: list[Entry] = []
    for key, value in switches.items():
        state = as_text(value).strip().lower()
        if state not in ("true", "false"):
            raise Unusable(f"the switch of the tool {show(as_text(key))} is {show(value)}", "Write true or false.")
        entries.append((as_text(key), "*", "allow" if state == "true" else "deny"))
    return sorted(entries, key=lambda entry: len(entry[0]) if "*" in entry[0] else _LONGEST)


def read_entries(value: Any) -> list[Entry]:
    """Read OpenCode's `permission`, one action or a table of tools, or `permissions`, a list, as entries. Raises `Unusable`."""
    if isinstance(value, list):
        return [_read_entry(one) for one in value if not (isinstance(one, Mapping) and one.get("action") in _NOT_TOOLS)]
    rules = {"*": value} if isinstance(value, str) else value
    if not isinstance(rules, Mapping):
        raise Unusable("`permission` is neither an action nor a table", "Write for example `permission: {edit: deny}`.")
    entries: list[Entry] = []
    for key, rule in rules.items():
        tool = as_text(key)
        for pattern, action in (rule if isinstance(rule, Mapping) else {"*": rule}).items():
            word = as_text(action).strip().lower()
            if word not in ("allow", "ask", "deny") or "\n" in as_text(pattern):
                what = f"the permission of {show(tool)} for {show(as_text(pattern))} is {show(action)}"
                raise Unusable(what, "Write allow, ask or deny.")
            if tool not in _NOT_TOOLS:
                entries.append((tool, as_text(pattern), word))
    return entries


def _read_entry(rule: Any) -> Entry:
    """Read one rule of OpenCode 2."""
    match rule:
        case {"action": str(tool), "resource": str(pattern), "effect": "allow" | "ask" | "deny" as word}:
            if "\n" not in pattern:
                return tool, pattern, word
    raise Unusable(
        "an entry of `permissions` is not a rule", 'Write {"action": "shell", "resource": "git *", "effect": "ask"}.'
    )


def _read_entries(key: str, value: Any) -> list[str]:
    """Read a list of tools, as a YAML list or one line with commas or spaces. Raises `Unusable`."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise Unusable(f"an entry of `{key}` is {show(item)}, not a name", "Put the entry in quotes.")
    # Joined first, because YAML cuts `[Bash(git log:*, git diff:*)]` at its comma.
    entries = split_entries(", ".join(items))
    for entry in entries:
        if not is_tool_entry(entry):
            raise Unusable(
                f"{show(entry)} in `{key}` is not a tool or pattern", "Write for example `Read` or `Bash(git log:*)`."
            )
    return list(dict.fromkeys(canonical_tool(entry) for entry in entries))


def split_entries(text: str) -> list[str]:
    """Split `Read, Bash(git log:*, git diff:*)` at commas and spaces outside brackets."""
    entries, current, depth = [], "", 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and (character == "," or character.isspace()):
            entries.append(current)
            current = ""
        else:
            current += character
    return [entry for entry in [*entries, current] if entry]
