"""One spelling for every tool: other systems' names are translated when a definition is read.

`canonical_tool` keeps what a pattern says: `Bash(git log:*)` stays `Bash(git log:*)`, `mcp__server__*` stays
as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

KNOWN_TOOLS = frozenset(
    (
        *("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "LS", "Bash", "BashOutput", "KillShell"),
        *("TodoWrite", "WebFetch", "WebSearch", "Agent", "WaitAgents", "ListAgents", "StopAgent", "SendMessage"),
        *("TeamCreate", "TeamDelete", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"),
    )
)
"""Tools with a fixed name. A list may name others; its reader then warns."""

TOOL_FAMILIES = ("Scratchpad*", "Board*", "Memory*", "mcp__*")
"""Groups of tools that are known by the start of their name."""

_ALIASES = {
    "Read": "read_file readfile view view_file cat",
    "Write": "write_file writefile create_file",
    "Edit": "edit_file multiedit multi_edit patch apply_patch str_replace search_replace",
    "NotebookEdit": "notebook_edit",
    "Glob": "find_files file_search glob_search",
    "Grep": "grep_search search_files content_search codesearch",
    "LS": "list list_files list_dir list_directory",
    "Bash": "shell run_shell run_shell_command run_command local_shell exec_command execute terminal powershell",
    "BashOutput": "bash_output",
    "KillShell": "kill_shell killbash kill_bash",
    "TodoWrite": "todo todo_write write_todos update_plan",
    "WebFetch": "web_fetch fetch",
    "WebSearch": "web_search",
    "Agent": "task subagent spawn_agent delegate",
    "WaitAgents": "wait_agent wait_agents wait",
    "ListAgents": "list_agents",
    "StopAgent": "close_agent stop_agent interrupt_agent taskstop task_stop",
    "SendMessage": "send_message send_input followup_task",
    "AskUserQuestion": "question ask_user ask_user_question request_user_input",
    "EnterPlanMode": "plan_enter enter_plan_mode",
    "ExitPlanMode": "plan_exit exit_plan_mode",
    "TeamCreate": "team_create",
    "TeamDelete": "team_delete",
}

_CANONICAL = {name.lower(): name for name in KNOWN_TOOLS} | {
    alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()
}

_ENTRY = re.compile(r"[A-Za-z_*?][\w*?.:-]*(\([^\n]*\))?")


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """The name and the spec of `Tool(spec)`. `Tool()`, `Tool(*)` and `Tool(:*)` mean the whole tool: no spec."""
    name, bracket, rest = pattern.strip().partition("(")
    spec = rest.removesuffix(")").strip() if bracket else ""
    return name.strip(), None if spec in ("", "*", ":*") else spec


def canonical_tool(name: str) -> str:
    """Our name for a tool that a definition names in its own way; a spec in brackets and unknown names are kept."""
    bare, spec = split_pattern(name)
    canonical = _CANONICAL.get(bare.lower(), bare)
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


def suggest(word: str, candidates: Iterable[str]) -> str:
    """The hint ` (did you mean 'x'?)` for a misspelt word, or nothing."""
    spelling = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), spelling, n=1, cutoff=0.7)
    return f" (did you mean {spelling[close[0]]!r}?)" if close else ""
