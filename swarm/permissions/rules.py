"""Rules that allow, ask about or deny calls of a tool, each with its source.

A rule is written `Tool` or `Tool(spec)`: `Bash(git log:*)`, `Edit(/src/**)`, `WebFetch(domain:example.com)`,
`Agent(explore)`, `mcp__github__*`. Rules are plain data and travel with the job.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError
from swarm.definitions.mcp.servers import spellings
from swarm.definitions.names import canonical_tool, is_tool_entry, split_pattern
from swarm.definitions.tools import EDIT, READ, Matching, is_mcp, matches_tool, row_of
from swarm.permissions.path_rules import check_path_spec

Action = Literal["allow", "ask", "deny"]

_MAX_LENGTH = 4_000
_MAX_WILDCARDS = 20
_DOMAIN = re.compile(r"[\w*-]+(\.[\w*-]+)*")
_TYPE = r"[\w*?][\w.*?-]*(:[\w*?][\w.*?-]*)?"
"""An agent type; a plugin's types are `plugin:type`."""
_TYPES = re.compile(rf"{_TYPE}(\s*,\s*{_TYPE})*")
_OF_AGENT_CALLS = frozenset(
    (
        *("model", "subagent_type", "description", "prompt", "name", "run_in_background", "isolation", "mode", "kind"),
        *("agent_id", "fork", "teammate", "role", "result_schema"),
    )
)
"""Parameters, as in `Agent(model:opus)`, which are not plugins' names."""
_HASH = re.compile(r"_[0-9a-f]{8}$")
"""The end of a server's tool name that is cut, or else equal to another's."""
_PARAMETER = re.compile(r"\w+:.+")
_NUMERIC = re.compile(r"[0-9a-fA-FxX]+(\.[0-9a-fA-FxX]+){0,3}")
_ODD = re.compile(r"[\x00-\x20\x7f\\]")


class InvalidRule(ConfigurationError):
    """An entry is not a valid rule."""

    def __init__(self, entry: str, source: str, problem: str, remedy: str) -> None:
        self.entry, self.source, self.problem, self.remedy = entry, source, problem, remedy
        super().__init__(f"the rule {entry} of {source}: {problem}. {remedy}")


class Rule(BaseModel):
    """One permission rule."""

    model_config = ConfigDict(frozen=True)

    action: Action
    tool: str
    """A name, or a pattern such as `mcp__github__*`."""
    spec: str | None = None
    """Pattern for the call; None means every call."""
    source: str
    """The rule's source, in words: `project settings (.claude/settings.json)`."""
    unless: tuple[str, ...] = ()
    """Entries (`Bash(git log:*)`, `Read`) whose calls the rule does not match."""
    plain: bool = False
    """A rule for commands that matches only whole commands. With a kind (`:*`) it matches only plain words, and options that start
    no program and write no file."""

    @property
    def promise(self) -> str:
        """Everything that the rule allows, in words, for the person who approves it."""
        if not (self.plain and (self.spec or "").endswith(":*")):
            return self.text
        return f"{self.text}, only with plain words, and no option that starts a program or names a file"

    @property
    def text(self) -> str:
        """The rule as people write it."""
        return self.tool if self.spec is None else f"{self.tool}({self.spec})"

    def names(self, tool: str) -> bool:
        """Report whether the rule covers this tool."""
        return self.names_tool(tool) or row_of(tool).matching == _family(self)

    def names_tool(self, tool: str) -> bool:
        """Report whether the rule has this tool's name, or a pattern for it."""
        if matches_tool(self.tool, tool):
            return True
        if self.action == "allow" or not is_mcp(tool) or not is_mcp(self.tool):
            return False
        # A tool has one spelling, but a rule that forbids it may use another.
        names = {tool.casefold(), _HASH.sub("", tool.casefold())}
        return any(matches_tool(form, name) for form in self.spellings for name in names)

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The names of a server's tools that the rule can mean, if it denies or asks."""
        return tuple(dict.fromkeys(form.casefold() for form in spellings(self.tool)))

    @cached_property
    def exceptions(self) -> tuple[Rule, ...]:
        """The entries of `unless` as allow rules."""
        entries = (split_pattern(entry) for entry in self.unless)
        return tuple(Rule(action="allow", tool=tool, spec=spec, source=self.source) for tool, spec in entries)


class Rules(BaseModel):
    """All rules for an agent. Their order does not matter: deny beats ask, and ask beats allow."""

    model_config = ConfigDict(frozen=True)

    rules: tuple[Rule, ...] = ()

    def __add__(self, other: Rules) -> Rules:
        """Return these rules and the others', each once."""
        return Rules(rules=tuple(dict.fromkeys((*self.rules, *other.rules))))

    def __len__(self) -> int:
        return len(self.rules)

    def about(self, action: Action, tool: str) -> tuple[Rule, ...]:
        """Return the rules with this action that cover the tool."""
        key = (action, tool)
        found = self.chosen.get(key)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.action == action and rule.names(tool))
            if len(self.chosen) < 1000:  # a model can invent any number of names
                self.chosen[key] = found
        return found

    @cached_property
    def chosen(self) -> dict[tuple[Action, str], tuple[Rule, ...]]:
        """Cache of `about`."""
        return {}


def _family(rule: Rule) -> Matching | None:
    """Return the matching of the tools that a rule also covers: a file that must not be edited must not be overwritten.

    To allow, only rules with a path cover others: the bare `Edit` allows the tool of that name alone, as in Claude Code.
    """
    if rule.tool in (EDIT, READ) and (rule.action != "allow" or rule.spec is not None):
        return row_of(rule.tool).matching
    if row_of(rule.tool).writes_files and rule.spec is not None and rule.action != "allow":
        return "edited"
    return None


def parse_rule(text: object, action: Action, source: str) -> Rule:
    """Read one entry; other systems' names of tools are accepted. Raises `InvalidRule`."""
    problem = _RuleReader(text, action, source)
    if not isinstance(text, str):
        raise problem.refuse("it is not text", 'Write it in quotes, for example "Bash(git log:*)"')
    entry = text.strip()
    if len(entry) > _MAX_LENGTH:
        raise problem.refuse("it is too long", f"Keep it below {_MAX_LENGTH} characters")
    if not is_tool_entry(entry):
        raise problem.refuse("it does not have the form of a rule", "Write `Tool` or `Tool(pattern)` on one line")
    tool, spec = split_pattern(canonical_tool(entry))
    if "*" in tool or "?" in tool:
        _check_tool_pattern(tool, problem)
    if spec is not None:
        for reason in _check_spec(tool, spec, action):
            raise problem.refuse(*reason)
    return Rule(action=action, tool=tool, spec=spec, source=source)


class _RuleReader:
    """An entry and its source, for error messages."""

    def __init__(self, entry: object, action: Action, source: str) -> None:
        self.entry, self.action, self.source = entry, action, source

    def refuse(self, problem: str, remedy: str) -> InvalidRule:
        shown = repr(self.entry) if isinstance(self.entry, str) else f"(a {type(self.entry).__name__})"
        return InvalidRule(shown if len(shown) <= 80 else f"{shown[:79]}…", self.source, problem, f"{remedy}.")


def _check_tool_pattern(tool: str, problem: _RuleReader) -> None:
    if problem.action != "allow":
        return
    server = re.fullmatch(r"mcp__([^*?]+)__.*", tool)
    if server is None:
        raise problem.refuse(
            "a pattern of tool names can allow only tools of one MCP server",
            "Name the tools one by one, or write mcp__SERVER__*",
        )


def _check_spec(tool: str, spec: str, action: Action) -> Iterator[tuple[str, str]]:
    """Return the fault of a spec, and the remedy; nothing if it is valid."""
    if spec.count("*") > _MAX_WILDCARDS:
        yield "it has too many wildcards", f"Use at most {_MAX_WILDCARDS}"
        return
    match row_of(tool).matching:
        case "command":
            return
        case "edited" | "read":
            try:
                check_path_spec(spec)
            except ValueError as error:
                yield f"its path pattern cannot be used: {error}", "Write it as in a .gitignore, for example `src/**`"
            return
        case "domain":
            if not spec.startswith("domain:") or not _DOMAIN.fullmatch(spec[7:].strip()):
                yield "its pattern is not a domain", f"Write for example {tool}(domain:*.example.com)"
            return
        case "type" if _TYPES.fullmatch(spec) and (action != "allow" or spec.partition(":")[0] not in _OF_AGENT_CALLS):
            return
        case "name" | "value":
            return
    if not _PARAMETER.fullmatch(spec):
        yield f"{tool} takes no pattern of this kind", f"Write only {tool}, or {tool}(parameter:value) to deny or ask"
    elif action == "allow":
        yield "a parameter's value can be denied or asked about, not allowed", f"Write only {tool}"


def matches_parameter(spec: str, given: dict[str, Any]) -> bool:
    """Report whether a call has the value in `parameter:value`, in any case; `*` and `?` are wildcards in it."""
    name, _, value = spec.partition(":")
    if name not in given:
        return False
    actual = given[name]
    shown = str(actual).lower() if isinstance(actual, bool) else str(actual)
    return fnmatchcase(shown.strip().casefold(), value.strip().casefold())


def matches_value(spec: str, subject: object) -> bool:
    """Report whether a call's value matches the spec; `*` and `?` are wildcards in it."""
    return fnmatchcase(str(subject).lower() if isinstance(subject, bool) else str(subject), spec)


def matches_name(spec: str, names: Iterable[str], *, broad: bool) -> bool:
    """Report whether one of a subject's names matches `review`, `deploy *` or `/fix:*`; a final star also allows arguments.

    `broad` (rules that deny or ask) ignores case and a leading slash, and `review` means `plugin:review`, too.
    """
    prefix = re.sub(r"(:| )\*$", "", spec)
    forms = {spec} if prefix == spec else {prefix, f"{prefix} *"}
    subjects = {name.strip() for name in names}
    if broad:
        # As a name of a plugin's or a folder's, `git:*` means everything in it, and `dep:*` every name that begins so.
        forms = {
            form.casefold().removeprefix("/") for form in (*forms, spec, *([] if prefix == spec else [f"{prefix}*"]))
        }
        folded = {name.casefold().lstrip("/") for name in subjects}
        subjects = folded | {name.rpartition(":")[2] for name in folded}
    return any(fnmatchcase(name, form) for name in subjects for form in forms)


def matches_domain(spec: str, url: object, *, broad: bool) -> bool:
    """Report whether a call's URL matches; `broad` (rules that deny or ask) includes subdomains and unreadable URLs."""
    pattern = spec.removeprefix("domain:").strip().lower().rstrip(".")
    host = host_of(url)
    if host is None:
        return broad
    if pattern == "*":
        return True
    if pattern.startswith("*.") and "*" not in pattern[2:]:
        return host.endswith(pattern[1:]) or (broad and host == pattern[2:])
    if "*" not in pattern:
        return host == pattern or (broad and host.endswith(f".{pattern}"))
    form = re.escape(pattern).replace(r"\*", ".*" if broad else "[^.]+")
    return re.fullmatch(rf"(.*\.)?{form}" if broad else form, host) is not None


def host_of(url: object) -> str | None:
    """Return the host of a URL in one spelling; None if programs could read the URL differently."""
    if not isinstance(url, str) or _ODD.search(url):
        return None
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host = (parts.hostname or "").rstrip(".")
        return _plain_address(host) or host.encode("idna").decode().lower() if host else None
    except (ValueError, UnicodeError):
        return None


def _plain_address(host: str) -> str:
    """Return a numeric IPv4 address in its usual form, as programs read `0x7f.1` and `::ffff:127.0.0.1`; else empty."""
    if ":" in host:
        mapped = ip_address(host).ipv4_mapped if "%" not in host else None  # type: ignore[union-attr]
        return "" if mapped is None else str(mapped)
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) if _NUMERIC.fullmatch(host) else ""
    except OSError:
        return ""
