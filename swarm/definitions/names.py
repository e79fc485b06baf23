"""Names of tools in lists and rules. Other systems' names are translated when a definition is read.

`canonical_tool` keeps patterns: `Bash(git log:*)` and `mcp__server__*` stay unchanged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from swarm.definitions.model import DEFAULT_TYPE
from swarm.definitions.tools import find_alias, is_mcp, known_tools

_ENTRY = re.compile(r"([A-Za-z_*?][\w*?.:/-]*|mcp__[^(),\n]+)(\([^\n]*\))?")
_TOOL_SETS = frozenset({"edit", "execute", "read", "search", "web", "runcommands"})
"""Names before the slash, as in `edit/editFiles`."""
_NO_COUNTERPART = frozenset(
    (
        *("todoread", "lsp", "powershell", "codesearch", "monitor", "taskoutput", "enterworktree", "exitworktree"),
        *("artifact", "workflow", "schedulewakeup", "croncreate", "cronlist", "crondelete", "viewimage"),
        *("codeinterpreter", "sendusermessage"),
    )
)
"""Other systems' tools that are common in files and have no counterpart here."""
_TYPE_ALIASES = {"reviewer": "code-reviewer", "general": DEFAULT_TYPE}
"""Other systems' names of shipped types."""


def split_chain(named: str) -> list[str]:
    """Return the models of a chain that is written as `first, second`."""
    return [model for one in named.split(",") if (model := one.strip())]


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """Return the name and the spec of `Tool(spec)`. `Tool()`, `Tool(*)` and `Tool(:*)` mean the whole tool: no spec."""
    name, bracket, rest = pattern.strip().partition("(")
    spec = rest.removesuffix(")").strip() if bracket else ""
    return name.strip(), None if spec in ("", "*", ":*") else spec


def canonical_tool(name: str) -> str:
    """Return our name of a tool; a spec in brackets and unknown names are kept."""
    bare, spec = split_pattern(name)
    group, _, member = bare.partition("/")
    canonical = find_alias(member if group.lower() in _TOOL_SETS and member else bare) or bare
    return canonical if spec is None else f"{canonical}({spec})"


def is_tool_entry(text: str) -> bool:
    """Report whether `text` has the form of an entry of a tool list, known or not."""
    return _ENTRY.fullmatch(text) is not None


def is_known_tool(name: str) -> bool:
    """Report whether a canonical name or pattern matches a known tool or an MCP server's tool."""
    bare, _ = split_pattern(name)
    return is_mcp(bare) or any(fnmatchcase(tool, bare) for tool in known_tools())


def is_elsewhere(name: str) -> bool:
    """Report whether this is a common tool of another system that has no counterpart here."""
    return re.sub("[_-]", "", name).lower() in _NO_COUNTERPART


def canonical_type(name: str) -> str:
    """Return the shipped type's name for another system's name of it; other names stay unchanged."""
    return _TYPE_ALIASES.get(name.casefold(), name)


def spell_part(name: str) -> str:
    """Replace characters that a part of a name cannot have; a name in another script becomes empty."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:64]


def suggest(word: str, candidates: Iterable[str], likeness: float = 0.7) -> str:
    """Return the hint ` (did you mean 'x'?)` for a misspelt word, or nothing."""
    spelling = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), spelling, n=1, cutoff=likeness)
    return f" (did you mean {spelling[close[0]]!r}?)" if close else ""
