"""How lists and rules name tools: one spelling for every tool, other systems' names are translated when a definition is read.

`canonical_tool` keeps what a pattern says: `Bash(git log:*)` stays `Bash(git log:*)`, `mcp__server__*` stays
as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from swarm.definitions.model import DEFAULT_TYPE
from swarm.definitions.tools import find_alias, is_mcp, known_tools

_ENTRY = re.compile(r"[A-Za-z_*?][\w*?.:/-]*(\([^\n]*\))?")
_TOOL_SETS = frozenset({"edit", "execute", "read", "search", "web", "runcommands"})
"""What stands before the slash in `edit/editFiles`."""
_TYPE_ALIASES = {"reviewer": "code-reviewer", "general": DEFAULT_TYPE}
"""Other systems' names of types that are shipped here."""


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """The name and the spec of `Tool(spec)`. `Tool()`, `Tool(*)` and `Tool(:*)` mean the whole tool: no spec."""
    name, bracket, rest = pattern.strip().partition("(")
    spec = rest.removesuffix(")").strip() if bracket else ""
    return name.strip(), None if spec in ("", "*", ":*") else spec


def canonical_tool(name: str) -> str:
    """Our name for a tool that a definition names in its own way; a spec in brackets and unknown names are kept."""
    bare, spec = split_pattern(name)
    group, _, member = bare.partition("/")
    canonical = find_alias(member if group.lower() in _TOOL_SETS and member else bare) or bare
    return canonical if spec is None else f"{canonical}({spec})"


def is_tool_entry(text: str) -> bool:
    """Whether `text` has the form of an entry of a tool list, known or not."""
    return _ENTRY.fullmatch(text) is not None


def is_known_tool(name: str) -> bool:
    """Whether a canonical name or pattern means at least one tool that this project has, or a tool of an MCP server."""
    bare, _ = split_pattern(name)
    return is_mcp(bare) or any(fnmatchcase(tool, bare) for tool in known_tools())


def canonical_type(name: str) -> str:
    """The name that a type is shipped under, where other systems have another one for it."""
    return _TYPE_ALIASES.get(name.casefold(), name)


def suggest(word: str, candidates: Iterable[str], likeness: float = 0.7) -> str:
    """The hint ` (did you mean 'x'?)` for a misspelt word, or nothing."""
    spelling = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), spelling, n=1, cutoff=likeness)
    return f" (did you mean {spelling[close[0]]!r}?)" if close else ""
