"""The table of tools. A row has the facts that filter, rules, modes, decisions, transcript and commands need about a tool.

The module imports no tools, so definitions and rules can be read without them. `home` names the tool's module, which is imported on
first use. No other code refers to a tool by its name. Capabilities have their rows in their folders. An external package adds rows with
`declare`, once per process, at its start.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Literal

from swarm.core.capabilities import capabilities
from swarm.core.errors import ConfigurationError


class Kind(Enum):
    """How a call is carried out: its order within a reply, and recovery from a crash in the middle."""

    LOOK = "look"
    """No changes. Several calls run at once, and an interrupted one runs again."""
    EFFECT = "effect"
    """Effects. A call runs alone, and an interrupted one is never repeated silently."""
    IDEMPOTENT = "idempotent"
    """Effects that happen once per call, even on redelivery. A call runs alone, and an interrupted one runs again."""
    SHARED = "shared"
    """A change of state that agents share, in one idempotent step. A call can run again, but waits for the previous one."""
    ASK = "ask"
    """A question to a person or a lead; the answer is the result."""
    SPAWN = "spawn"
    """A start of agents: all starts of a reply at once, after the reply's other calls."""
    AGENTS = "agents"
    """A call about other agents. It runs after the starts of the same reply, in the order of the calls."""
    SEND = "send"
    """A message. The result and the message are one step; ordered as `AGENTS`."""
    WAIT = "wait"
    """A wait that releases the process. Waits run last, one after the other."""


Matching = Literal["", "edited", "read", "command", "domain", "type", "name", "value"]
"""How a rule's spec is compared with the subject: as the path of a changed or read file, a shell command, a URL's domain, an agent
type, a name before arguments, or any value."""
Need = Literal[
    "",
    "children",
    "several",
    "lead",
    "first",
    "plan",
    "planner",
    "person",
    "memory",
    "skills",
    "servers",
    "program",
    "listed",
    "flow",
]


@dataclass(frozen=True)
class ToolRow:
    """One tool. The defaults fit a tool that has effects outside and no special needs."""

    name: str
    kind: Kind = Kind.EFFECT
    home: str = ""
    """`module:NAME` of the `swarm.tools.Tool`. If empty, definitions and rules can name the tool, but no agent has it."""
    subject: str = ""
    """The main parameter of a call: rules match it, lists and activity lines show it."""
    matching: Matching = ""
    inner: str = ""
    """A second parameter: a pattern below the folder in `subject`."""
    server: str = ""
    """The parameter that names an MCP server, whose rules hold for the call, too."""
    network: bool = False
    """The tool can send data that an agent has read to other systems."""
    internal: bool = False
    """The tool uses no files, network or processes beyond the agent's own, so every mode allows it."""
    needs_shell: bool = False
    """The tool runs commands, or is useless without them. Only a sandbox can prevent it from writing."""
    in_background: bool = True
    """Background agents may have the tool, because it needs no person."""
    root_only: bool = False
    """Only a root agent has the tool, because it addresses the person or arranges the whole job."""
    while_planning: bool = False
    """Exception to `root_only`: a sub-agent in plan mode has the tool."""
    shipped_only: bool = False
    """Only shipped definitions get the tool."""
    concludes: bool = False
    """The tool records its caller's conclusions for the whole job."""
    adds_agents: bool = False
    """Agents at the nesting limit do not have the tool."""
    comes_with: str = ""
    """A definition that lists this other tool gets both, because the other is incomplete alone."""
    of_teammates: bool = False
    """Every teammate has the tool, whatever its definition lists."""
    needs: Need = ""
    """The agents that can use the tool; empty: all.

    - `children`: agents that can start agents.
    - `several`, `lead`: agents of a job that can have several, or only its first one. A teammate or a listed tool is exempt.
    - `first`: a job's first agent, a workflow, or an agent that lists the tool.
    - `plan`: agents that can leave plan mode.
    - `planner`: a root that writes and can enter plan mode, if somebody answers its plan.
    - `flow`: workflows.
    - `person`: a root or a workflow whose questions somebody answers.
    - `memory`: agents with a memory, listed or not.
    - `skills`: agents of a job with skills.
    - `servers`: agents with MCP servers that need the tool.
    - `program`: agents that are programs; they have no other tool.
    - `listed`: agents whose definition lists it.
    """
    sets_mode: Literal["", "plan"] = ""
    """The permission mode that an allowed call sets; the call has no other effect."""
    heartbeat: Literal["", "last", "each"] = ""
    """The last call (`last`), or the last one per subject (`each`), stays in force and is repeated after a compaction."""
    timeout_seconds: float | None = None
    """Time limit of one call; None: no limit here."""
    activity: str = ""
    """Activity line of a call, with parameters in braces; empty: name and subject."""
    aliases: str = ""
    """Other systems' names of the tool, in lower case without `_` and `-`, separated by spaces."""
    origin: str = ""
    """Package and version, or module, of an external tool. Not every worker has it."""
    tags: tuple[str, ...] = ()
    """Tags that a worker must have (`SWARM_TAGS`) to offer the tool."""
    sandboxed: bool = False
    """Calls run only in a sandbox."""

    def describe(self, given: Mapping[str, Any]) -> str:
        """Return the activity line of a call: `Read src/app.py`."""
        form = self.activity or (f"{self.name} {{{self.subject}}}" if self.subject else self.name)
        shown = {name: " ".join(str(value).split()) for name, value in given.items()}
        return form.format_map(defaultdict(str, shown)).strip()

    @property
    def has_effects(self) -> bool:
        """A call changes something that permissions protect."""
        return self.kind in (Kind.EFFECT, Kind.IDEMPOTENT)

    @property
    def writes_files(self) -> bool:
        """The tool changes files by path."""
        return self.matching == "edited"

    @property
    def shows_others(self) -> bool:
        """Results contain text that other agents wrote."""
        return self.of_teammates or self.kind in (Kind.SPAWN, Kind.AGENTS, Kind.SHARED, Kind.WAIT)

    @property
    def is_internal(self) -> bool:
        """The runtime carries calls out without touching anything that permissions protect."""
        return self.internal or self.kind not in (Kind.LOOK, Kind.EFFECT, Kind.IDEMPOTENT)


PROGRAM, PROGRAM_AGAIN = "Program", "ProgramAgain"
"""Calls of a program agent: run once, or again after an interruption."""
EDIT, READ, SHELL = "Edit", "Read", "Bash"
"""Tools whose rules cover all tools that change files, all that read files, and shell commands."""
SPAWN, QUESTION, EVENT, MESSAGE, MERGE = "Agent", "AskUserQuestion", "WaitFor", "SendMessage", "MergeAgent"
"""Tools that workflows call: they start an agent, ask the person, wait for an event, write to an agent, merge its copy."""
CLEAN = "clean"
"""Strategy of a merge that merges nothing if anything conflicts."""
READ_ROWS, MAP_ROWS = "ReadRows", "MapRows"
"""Tools of workflows alone: they read a file of rows, and run an agent for each of some rows."""

WORKFLOW = "Workflow"
"""The tool that starts workflows."""

# fmt: off
_BUILTIN = (
    ToolRow(READ, Kind.LOOK, "swarm.tools.read:READ", "file_path", "read", aliases="readfile view viewfile cat notebookread"),
    ToolRow(EDIT, Kind.EFFECT, "swarm.tools.edit:EDIT", "file_path", "edited",
            aliases="editfile editfiles multiedit patch applypatch strreplace searchreplace"),
    ToolRow("Write", Kind.EFFECT, "swarm.tools.edit:WRITE", "file_path", "edited", aliases="writefile createfile"),
    ToolRow("NotebookEdit", Kind.EFFECT, "swarm.tools.edit:NOTEBOOK_EDIT", "notebook_path", "edited"),
    ToolRow(SHELL, Kind.EFFECT, "swarm.tools.shell:BASH", "command", "command", needs_shell=True, timeout_seconds=600,
            aliases="shell runshell runshellcommand runcommand runcommands runinterminal localshell execcommand execute terminal"),
    ToolRow("BashOutput", Kind.LOOK, "swarm.tools.shell:BASH_OUTPUT", "bash_id", internal=True, needs_shell=True),
    ToolRow("KillShell", Kind.EFFECT, "swarm.tools.shell:KILL_SHELL", "shell_id", internal=True, needs_shell=True, aliases="killbash"),
    ToolRow("Glob", Kind.LOOK, "swarm.tools.search:GLOB", "path", "read", inner="pattern", activity="Glob {pattern}",
            aliases="findfiles filesearch globsearch"),
    ToolRow("Grep", Kind.LOOK, "swarm.tools.search:GREP", "path", "read", inner="glob", activity="Grep {pattern}",
            aliases="grepsearch searchfiles contentsearch textsearch"),
    ToolRow("LS", Kind.LOOK, "swarm.tools.search:LS", "path", "read", aliases="list listfiles listdir listdirectory"),
    ToolRow("TodoWrite", Kind.LOOK, "swarm.tools.todo:TODO_WRITE", internal=True, heartbeat="last",
            aliases="todo writetodos updateplan"),
    ToolRow("WebFetch", Kind.LOOK, "swarm.tools.web.fetch_tool:WEB_FETCH", "url", "domain", network=True, timeout_seconds=60,
            aliases="fetch"),
    ToolRow("WebSearch", Kind.LOOK, "swarm.tools.web.search_tool:WEB_SEARCH", "query", network=True),
    ToolRow("SlashCommand", Kind.EFFECT, "", "command", "name"),

    ToolRow(PROGRAM, Kind.EFFECT, "swarm.tools.program:ONCE", "command", "command", needs_shell=True, needs="program"),
    ToolRow(PROGRAM_AGAIN, Kind.IDEMPOTENT, "swarm.tools.program:AGAIN", "command", "command", needs_shell=True, needs="program"),
    ToolRow("Agent", Kind.SPAWN, "swarm.tools.agents:AGENT", "subagent_type", "type", adds_agents=True, activity="Agent {description}",
            aliases="task subagent delegate delegatetask spawnagent resumeagent spawnteammate startasynctask"),
    ToolRow("WaitAgents", Kind.WAIT, "swarm.tools.agents:WAIT_AGENTS", needs="children", activity="waiting for agents",
            aliases="wait waitagent"),
    ToolRow("ListAgents", Kind.AGENTS, "swarm.tools.agents:LIST_AGENTS", needs="children", aliases="listasynctasks"),
    ToolRow("ReadAgent", Kind.AGENTS, "swarm.tools.reading_agents:READ_AGENT", "agent_id", comes_with="Agent", needs="children",
            aliases="taskoutput agentoutput agentoutputtool checkasynctask"),
    ToolRow("StopAgent", Kind.AGENTS, "swarm.tools.agents:STOP_AGENT", "agent_id", needs="children",
            aliases="closeagent interruptagent killagent taskstop cancelasynctask"),
    ToolRow("MergeAgent", Kind.AGENTS, "swarm.tools.agents:MERGE_AGENT", "agent_id", comes_with="Agent", needs="children"),
    ToolRow("SendMessage", Kind.SEND, "swarm.tools.messages:SEND_MESSAGE", "to", of_teammates=True, activity="SendMessage to {to}",
            aliases="sendinput followuptask updateasynctask"),
    ToolRow("AskUserQuestion", Kind.ASK, "swarm.tools.questions:ASK_USER", "question", root_only=True, in_background=False,
            needs="person", activity="asking: {question}", aliases="question askuser requestuserinput"),
    ToolRow("WaitFor", Kind.ASK, "swarm.tools.questions:WAIT_FOR", "event", needs="first", activity="waiting for the event {event}",
            aliases="waitforevent"),
    ToolRow("EnterPlanMode", Kind.SHARED, "swarm.tools.questions:ENTER_PLAN_MODE", root_only=True, shipped_only=True, in_background=False,
            needs="planner", sets_mode="plan", activity="entering plan mode", aliases="planenter"),
    ToolRow("ExitPlanMode", Kind.ASK, "swarm.tools.questions:EXIT_PLAN_MODE", root_only=True, while_planning=True,
            comes_with="EnterPlanMode", needs="plan", activity="handing in its plan", aliases="planexit"),
)
# fmt: on

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MCP = "mcp__"
_rows: dict[str, ToolRow] = {}
_by_alias: dict[str, str] = {}


def declare(*rows: ToolRow) -> None:
    """Add tools to this process's table; an identical row has no effect.

    Raises `ConfigurationError` for a name that is invalid or already taken by another row or alias.
    """
    known = _table()
    for row in rows:
        if reason := refuse_name(row.name):
            raise ConfigurationError(reason)
        if known.get(row.name, row) != row or _by_alias.get(_spelling(row.name), row.name) != row.name:
            raise ConfigurationError(f"there is a tool {row.name!r} already; give the one of {row.home} another name")
        _add(row)


def _table() -> dict[str, ToolRow]:
    """The rows by name; the swarm's own and those of its capabilities are added on first use."""
    if not _rows:
        _add(*_BUILTIN, *(row for one in capabilities().values() for row in one.tools()))
    return _rows


def _add(*rows: ToolRow) -> None:
    for row in rows:
        for alias in (_spelling(row.name), *row.aliases.split()):
            _by_alias.setdefault(alias, row.name)
    # All at once: another thread sees none of them, or all.
    _rows.update({row.name: row for row in rows})


def refuse_name(name: str) -> str:
    """Return the reason why this cannot be a tool's name; empty if it can."""
    if _NAME.fullmatch(name) and not name.startswith(_MCP):
        return ""
    return f"{name[:80]!r} cannot be a tool's name; use 1 to 64 letters, digits and '_', a letter first"


def row_of(name: str) -> ToolRow:
    """Return the row of a tool by its canonical name; an unknown tool counts as having effects."""
    found = _table().get(name)
    if found is None:
        return ToolRow(name, in_background=name.startswith(_MCP))
    return found


def all_rows() -> tuple[ToolRow, ...]:
    """Return every row, in the order in which models see the tools."""
    return tuple(_table().values())


def known_tools() -> frozenset[str]:
    """Return the names of all tools in the table."""
    return frozenset(_table())


def find_alias(name: str) -> str | None:
    """Return our name of a tool, given ours or another system's; `read_file` and `ReadFile` are one."""
    return _by_alias.get(_spelling(name)) if _table() else None


def matches_tool(pattern: str, name: str) -> bool:
    """Report whether a name or pattern means this tool; `mcp__server` means every tool of that server."""
    if is_mcp(pattern) and pattern.count("__") == 1 and fnmatchcase(name, f"{pattern}__*"):
        return True
    return pattern == name or fnmatchcase(name, pattern)


def is_mcp(name: str) -> bool:
    """Report whether a name or pattern means tools of MCP servers, `mcp__server__tool`."""
    return name.startswith(_MCP)


def _spelling(name: str) -> str:
    return re.sub("[_-]", "", name).lower()
