"""Which tools a definition allows and forbids, gathered from the ways in which files say it.

Claude Code lists names (`tools`, `disallowedTools`); OpenCode has a table of switches (`tools: {write:
false}`) and a table of rules (`permission: {bash: {"rm *": deny}}`). All of it ends in two lists. In doubt
the stricter reading is taken, and said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.definitions.names import canonical_tool, is_known_tool, is_tool_entry, split_pattern, suggest
from swarm.definitions.sources import Unusable, as_text, enumerate_briefly, show
from swarm.definitions.tools import all_rows, known_tools, row_of

_NOT_TOOLS = frozenset({"external_directory", "doom_loop"})
"""Permission keys of OpenCode that guard a situation, not a tool. Agents here never leave their workspace anyway."""

_MAX_ENTRIES = 500

_NO_COUNTERPART = frozenset(
    (
        *(
            "todoread",
            "lsp",
            "powershell",
            "codesearch",
            "toolsearch",
            "monitor",
            "taskoutput",
            "enterworktree",
        ),
        *("exitworktree", "artifact", "workflow", "schedulewakeup", "croncreate", "cronlist", "crondelete"),
        *("listmcpresourcestool", "readmcpresourcetool", "viewimage", "codeinterpreter", "sendusermessage"),
    )
)
"""Tools of other systems that are common in their files and have none here."""

_EVERY_TOOL = frozenset({"*", "all"})


@dataclass
class ToolLists:
    """The two lists while a definition is read; `tools=None` means all."""

    tools: list[str] | None = None
    disallowed: list[str] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)

    def read_tools(self, value: Any) -> None:
        """Take `tools`: names, or a table of switches. Raises `Unusable`."""
        if value is None or value == "":
            self._warn("`tools` is empty, which means every tool; write [] for none")
            self.tools = None
        elif isinstance(value, Mapping):
            self._read_switches(value)
        else:
            self.tools = _read_entries("tools", value)
            if any(entry.lower() in _EVERY_TOOL for entry in self.tools):
                self.tools = None

    def read_disallowed(self, value: Any) -> None:
        """Take `disallowedTools`: names. Raises `Unusable`."""
        if value is not None:
            self._disallow(*_read_entries("disallowedTools", value))

    def read_permission(self, value: Any) -> None:
        """Take OpenCode's `permission`: one action for all, or a table of tools. Raises `Unusable`."""
        rules = {"*": value} if isinstance(value, str) else value
        if not isinstance(rules, Mapping):
            raise Unusable(
                "`permission` is neither an action nor a table", "Write for example `permission: {edit: deny}`."
            )
        asked: list[str] = []
        allowed: list[str] = []
        for key, rule in rules.items():
            tool = as_text(key)
            actions = _read_actions(tool, rule)
            if tool in _NOT_TOOLS:
                continue
            if tool != "*" and set(actions.values()) != {"deny"}:
                allowed.extend(_tools_meant(tool))
            if "ask" in actions.values():
                asked.append(tool)
            if tool != "*":
                self._deny_where_asked_to(tool, actions)
        if _read_actions("*", rules.get("*", "allow")).get("*") == "deny":
            self._allow_only(allowed)
        if asked:
            self._warn(
                f"`ask` for {', '.join(asked)[:60]} is not kept: the agent's permission mode decides what is asked"
            )

    def finish(self) -> list[str]:
        """All that was understood only in part: call it once, at the end. Raises `Unusable`."""
        self.disallowed = list(dict.fromkeys(self.disallowed))
        entries = [*(self.tools or []), *self.disallowed]
        if len(entries) > _MAX_ENTRIES:
            raise Unusable(f"it names more than {_MAX_ENTRIES} tools and patterns", "Use wildcards.")
        unknown = list(dict.fromkeys(entry for entry in entries if not is_known_tool(entry)))
        self._warn_about(unknown)
        if self.tools and all(tool in unknown for tool in self.tools):
            self._warn("no tool of its list is known here: the agent may have none")
        return self._warnings

    def _warn_about(self, unknown: list[str]) -> None:
        absent: list[str] = []
        strange: list[str] = []
        for entry in unknown:
            name, _ = split_pattern(entry)
            if re.sub("[_-]", "", name).lower() in _NO_COUNTERPART:
                # To forbid what does not exist is no mistake worth a word.
                absent.extend([show(name)] if entry in (self.tools or []) else [])
            elif hint := suggest(name, known_tools()):
                self._warn(f"unknown tool {show(entry)}{hint}; kept, in case a worker offers it")
            else:
                strange.append(show(entry))
        if absent:
            self._warn(f"not offered here and without effect: {enumerate_briefly(absent)}")
        if strange:
            self._warn(f"unknown tools, kept in case a worker offers them: {enumerate_briefly(strange)}")

    def _read_switches(self, switches: Mapping[Any, Any]) -> None:
        """OpenCode's `{name: bool}`: everything is on unless switched off, or unless `*` is."""
        wanted: list[str] = []
        for key, value in switches.items():
            tool = as_text(key)
            state = as_text(value).strip().lower()
            if state not in ("true", "false"):
                raise Unusable(f"the switch of the tool {show(tool)} is {show(value)}", "Write true or false.")
            if tool == "*":
                continue
            if state == "true":
                wanted.append(canonical_tool(tool))
            else:
                self._disallow(*_tools_meant(tool))
        if as_text(switches.get("*", "true")).strip().lower() == "false":
            self._allow_only(wanted)

    def _deny_where_asked_to(self, tool: str, actions: dict[str, str]) -> None:
        """Forbid the whole tool, or what the patterns with `deny` match; deny wins over allow, whatever their order."""
        denied = [pattern for pattern, action in actions.items() if action == "deny"]
        if "*" in denied:
            if len(denied) < len(actions):
                self._warn(f"`permission` denies {show(tool)} with exceptions; here it is denied whole")
            self._disallow(*_tools_meant(tool))
            return
        for name in _tools_meant(tool):
            self._disallow(*(f"{name}({pattern})" for pattern in denied))

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
    # Editing is one permission in OpenCode: its switches `edit`, `write` and `patch` all mean it.
    return [row.name for row in all_rows() if row.writes_files] if row_of(name).writes_files else [name]


def _read_actions(tool: str, rule: Any) -> dict[str, str]:
    """The rule of one tool as pattern → action. Raises `Unusable` for anything else than allow, ask and deny."""
    table = rule if isinstance(rule, Mapping) else {"*": rule}
    actions = {as_text(pattern): as_text(action).strip().lower() for pattern, action in table.items()}
    for pattern, action in actions.items():
        if action not in ("allow", "ask", "deny") or "\n" in pattern:
            raise Unusable(
                f"the permission of {show(tool)} for {show(pattern)} is {show(action)}", "Write allow, ask or deny."
            )
    return actions


def _read_entries(key: str, value: Any) -> list[str]:
    """A list of tools, written as a YAML list or as one line with commas or spaces. Raises `Unusable`."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise Unusable(f"an entry of `{key}` is {show(item)}, not a name", "Put the entry in quotes.")
    # Joined first: YAML has cut `[Bash(git log:*, git diff:*)]` at its comma.
    entries = split_entries(", ".join(items))
    for entry in entries:
        if not is_tool_entry(entry):
            raise Unusable(
                f"{show(entry)} in `{key}` is not a tool or pattern", "Write for example `Read` or `Bash(git log:*)`."
            )
    return list(dict.fromkeys(canonical_tool(entry) for entry in entries))


def split_entries(text: str) -> list[str]:
    """Split `Read, Bash(git log:*, git diff:*)` at commas and spaces that are not in brackets."""
    entries, current, depth = [], "", 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and (character == "," or character.isspace()):
            entries.append(current)
            current = ""
        else:
            current += character
    return [entry for entry in [*entries, current] if entry]
