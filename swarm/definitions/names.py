"""One spelling for every tool: other systems' names are translated when a definition is read.

`canonical_tool` keeps what a pattern says: `Bash(git log:*)` stays `Bash(git log:*)`, `mcp__server__*` stays
as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

KNOWN_TOOLS = frozenset(
    (
        *("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "LS", "Bash", "BashOutput", "KillShell"),
        *("TodoWrite", "WebFetch", "WebSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"),
        *("Agent", "WaitAgents", "ListAgents", "StopAgent", "SendMessage", "TeamCreate", "TeamDelete"),
        *("BoardAdd", "BoardList", "BoardClaim", "BoardUpdate", "BoardComplete", "BoardWait"),
        *("ScratchpadWrite", "ScratchpadRead", "ScratchpadAppend", "ScratchpadList"),
    )
)
"""Tools with a fixed name. A list may name others; its reader then warns."""

TOOL_FAMILIES = ("Memory*", "mcp__*")
"""Groups of tools that are known by the start of their name."""

_OTHER_NAMES = {
    "Read": "readfile view viewfile cat notebookread",
    "Write": "writefile createfile",
    "Edit": "editfile multiedit patch applypatch strreplace searchreplace",
    "Glob": "findfiles filesearch globsearch",
    "Grep": "grepsearch searchfiles contentsearch codesearch",
    "LS": "list listfiles listdir listdirectory",
    "Bash": "shell runshell runshellcommand runcommand localshell execcommand execute terminal powershell",
    "KillShell": "killbash",
    "TodoWrite": "todo writetodos updateplan",
    "WebFetch": "fetch",
    "Agent": "task subagent delegate delegatetask spawnagent resumeagent spawnteammate startasynctask",
    "WaitAgents": "wait waitagent",
    "ListAgents": "checkasynctask listasynctasks",
    "StopAgent": "closeagent interruptagent killagent taskstop cancelasynctask",
    "SendMessage": "sendinput followuptask updateasynctask",
    "BoardAdd": "taskcreate createtask",
    "BoardList": "tasklist taskget listtasks gettask",
    "BoardUpdate": "taskupdate",
    "BoardClaim": "claimtask",
    "BoardComplete": "completetask",
    "AskUserQuestion": "question askuser requestuserinput",
    "EnterPlanMode": "planenter",
    "ExitPlanMode": "planexit",
}

ALIASES: Mapping[str, str] = {name.lower(): name for name in KNOWN_TOOLS} | {
    alias: name for name, aliases in _OTHER_NAMES.items() for alias in aliases.split()
}
"""The only table of other names → ours. Its keys are in lower case without `_` and `-`: `read_file` and `ReadFile` are one."""

_ENTRY = re.compile(r"[A-Za-z_*?][\w*?.:-]*(\([^\n]*\))?")


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """The name and the spec of `Tool(spec)`. `Tool()`, `Tool(*)` and `Tool(:*)` mean the whole tool: no spec."""
    name, bracket, rest = pattern.strip().partition("(")
    spec = rest.removesuffix(")").strip() if bracket else ""
    return name.strip(), None if spec in ("", "*", ":*") else spec


def canonical_tool(name: str) -> str:
    """Our name for a tool that a definition names in its own way; a spec in brackets and unknown names are kept."""
    bare, spec = split_pattern(name)
    canonical = ALIASES.get(re.sub("[_-]", "", bare).lower(), bare)
    return canonical if spec is None else f"{canonical}({spec})"


def is_tool_entry(text: str) -> bool:
    """Whether `text` has the form of an entry of a tool list, known or not."""
    return _ENTRY.fullmatch(text) is not None


def is_known_tool(name: str) -> bool:
    """Whether a canonical name or pattern means at least one tool that this project has, or a tool of an MCP server."""
    bare, _ = split_pattern(name)
    if any(fnmatchcase(bare, family) for family in TOOL_FAMILIES):
        return True
    return any(fnmatchcase(tool, bare) for tool in KNOWN_TOOLS)


def suggest(word: str, candidates: Iterable[str], likeness: float = 0.7) -> str:
    """The hint ` (did you mean 'x'?)` for a misspelt word, or nothing."""
    spelling = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), spelling, n=1, cutoff=likeness)
    return f" (did you mean {spelling[close[0]]!r}?)" if close else ""
