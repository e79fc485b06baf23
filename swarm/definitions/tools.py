"""The table of tools: one row says what filter, rules, modes, decision, transcript and commands must know of a tool.

It lies at the bottom, so that definitions and rules can be read without loading a tool. `home` names where the tool itself is; it is
imported when it is first used. Nothing else in the project knows a tool by its name. A package from outside adds rows with `declare`,
once, where its process starts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Literal

from swarm.core.errors import ConfigurationError


class Kind(Enum):
    """What carrying a call out means: when its turn comes within a reply, and what a crash in the middle of it leaves."""

    LOOK = "look"
    """It changes nothing: several run at once, and an interrupted one runs again."""
    EFFECT = "effect"
    """It has effects: it runs alone, and an interrupted one is never silently run again."""
    IDEMPOTENT = "idempotent"
    """It has effects that happen once for each call, however often that is delivered: it runs alone, and an interrupted one runs again."""
    SHARED = "shared"
    """It changes what agents share, in one step that knows its own repeat: it may run again, but waits for the one before it."""
    ASK = "ask"
    """A person, or a lead, is asked, and the answer is its result."""
    SPAWN = "spawn"
    """It starts agents, all of a reply at once, after what the reply's other calls have done."""
    AGENTS = "agents"
    """It is about other agents: it comes after those that the same reply starts, in the order of the calls."""
    SEND = "send"
    """It sends a message: its result and the message are one step; ordered as `AGENTS`."""
    WAIT = "wait"
    """It gives the process back until what it waits for has come: last, one after the other."""


Matching = Literal["", "edited", "read", "command", "domain", "type", "name", "value"]
"""How a rule's spec is compared with the subject: as the path of a file that is changed or looked at, as a shell command, as the
domain of an address, as a type of agent, as a name that arguments may follow, as a value of any kind."""
Need = Literal[
    "", "children", "several", "lead", "first", "plan", "planner", "person", "memory", "skills", "servers", "program"
]


@dataclass(frozen=True)
class ToolRow:
    """One tool. The defaults are those of a tool that changes something outside and needs nothing special."""

    name: str
    kind: Kind = Kind.EFFECT
    home: str = ""
    """`module:NAME` of its `swarm.tools.Tool`. Empty: definitions and rules may name it, and nobody here has it."""
    subject: str = ""
    """The parameter that a call is about: rules match it, lists and activity lines show it."""
    matching: Matching = ""
    inner: str = ""
    """A second parameter, a pattern below the folder that `subject` names."""
    network: bool = False
    """It may carry what an agent has read out of the house."""
    internal: bool = False
    """It touches no file, no network and no process but the agent's own, so modes let it pass."""
    needs_shell: bool = False
    """It runs commands, or is of no use without them: only a sandbox can keep it from writing."""
    in_background: bool = True
    """Agents in the background may have it: nobody needs to sit there for it."""
    root_only: bool = False
    """No sub-agent has it: it speaks to the person, or arranges the whole job."""
    while_planning: bool = False
    """A sub-agent in plan mode has it all the same."""
    shipped_only: bool = False
    """Definitions from files do not get it, even for a root."""
    concludes: bool = False
    """It puts down, for all of the job, what its caller has concluded."""
    adds_agents: bool = False
    """It is gone at the nesting limit."""
    comes_with: str = ""
    """Whoever has this tool listed has it, too: it could not be used in whole without."""
    of_teammates: bool = False
    """A teammate has it whatever its definition lists."""
    needs: Need = ""
    """Who has a use for it: whoever can start agents (`children`); agents of a job that can have several, or only its first one (`several`,
    `lead`: unless listed, or for a teammate); a job's first agent, or who lists it (`first`); one that can leave plan mode (`plan`), or
    enter it by itself (`planner`: a root that writes, and whose plan somebody answers); a root whose questions somebody answers (`person`);
    one whose definition has a memory (`memory`), which need not list it; one of a job with skills (`skills`); one that has MCP servers
    which need the tool (`servers`); one that is a program (`program`), and has nothing else."""
    sets_mode: Literal["", "plan"] = ""
    """The permission mode that a call, once it is allowed, puts its agent in: that is all it does."""
    heartbeat: Literal["", "last", "each"] = ""
    """What its last call says, or its last one about each subject, holds until the next one, so it is said again when a summary takes the
    conversation's place."""
    timeout_seconds: float | None = None
    """The most that one call may take; None: it is not limited here."""
    activity: str = ""
    """The activity line of a call, with parameters in braces; empty: the name and the subject."""
    aliases: str = ""
    """Its names in other systems, in lower case without `_` and `-`, parted by spaces."""
    origin: str = ""
    """Of a tool from outside: the package and its version, or the module, that it came with. Not every worker has it."""
    tags: tuple[str, ...] = ()
    """What a worker must be besides (`SWARM_TAGS`) to offer it."""
    sandboxed: bool = False
    """Its calls run in a sandbox and nowhere else."""

    def describe(self, given: Mapping[str, Any]) -> str:
        """The activity line of a call: `Read src/app.py`."""
        form = self.activity or (f"{self.name} {{{self.subject}}}" if self.subject else self.name)
        shown = {name: " ".join(str(value).split()) for name, value in given.items()}
        return form.format_map(defaultdict(str, shown)).strip()

    @property
    def has_effects(self) -> bool:
        """Whether a call changes something that permissions protect."""
        return self.kind in (Kind.EFFECT, Kind.IDEMPOTENT)

    @property
    def writes_files(self) -> bool:
        """Whether it changes files by path."""
        return self.matching == "edited"

    @property
    def shows_others(self) -> bool:
        """Whether its results hold what other agents wrote."""
        return self.of_teammates or self.kind in (Kind.SPAWN, Kind.AGENTS, Kind.SHARED, Kind.WAIT)

    @property
    def is_internal(self) -> bool:
        """Whether the runtime carries it out without touching anything that permissions protect."""
        return self.internal or self.kind not in (Kind.LOOK, Kind.EFFECT, Kind.IDEMPOTENT)


PROGRAM, PROGRAM_AGAIN = "Program", "ProgramAgain"
"""What an agent calls that is a program: it is run once, or again where it was interrupted."""
EDIT, READ, SHELL = "Edit", "Read", "Bash"
"""Whose rules speak of all that change files, of all that look at them, of shell commands."""

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
    ToolRow("Skill", Kind.LOOK, "swarm.capabilities.skills.skill_tool:SKILL", "skill", "name", needs="skills", heartbeat="each"),
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

    ToolRow("TeamCreate", Kind.SHARED, "swarm.capabilities.team.team_tools:TEAM_CREATE", "name", root_only=True, shipped_only=True,
            in_background=False, adds_agents=True, needs="lead"),
    ToolRow("TeamDelete", Kind.AGENTS, "swarm.capabilities.team.team_tools:TEAM_DELETE", root_only=True, shipped_only=True,
            in_background=False, needs="lead"),
    ToolRow("BoardAdd", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_ADD", "subject", of_teammates=True, needs="lead",
            aliases="taskcreate createtask"),
    ToolRow("BoardList", Kind.LOOK, "swarm.capabilities.team.board_tools:BOARD_LIST", "task_id", internal=True, of_teammates=True,
            needs="lead",
            aliases="tasklist taskget listtasks gettask"),
    ToolRow("BoardClaim", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_CLAIM", "task_id", of_teammates=True, needs="lead",
            aliases="claimtask"),
    ToolRow("BoardUpdate", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_UPDATE", "task_id", of_teammates=True, needs="lead",
            aliases="taskupdate"),
    ToolRow("BoardComplete", Kind.SHARED, "swarm.capabilities.team.board_tools:BOARD_COMPLETE", "task_id", of_teammates=True, needs="lead",
            aliases="completetask"),
    ToolRow("BoardWait", Kind.WAIT, "swarm.capabilities.team.board_tools:BOARD_WAIT", of_teammates=True, needs="lead",
            activity="waiting for tasks"),
    ToolRow("ScratchpadWrite", Kind.SHARED, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_WRITE", "page", of_teammates=True,
            concludes=True,
            needs="several"),
    ToolRow("ScratchpadRead", Kind.LOOK, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_READ", "page", internal=True,
            of_teammates=True, needs="several"),
    ToolRow("ScratchpadAppend", Kind.SHARED, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_APPEND", "page", of_teammates=True,
            concludes=True,
            needs="several"),
    ToolRow("ScratchpadList", Kind.LOOK, "swarm.capabilities.team.scratchpad_tools:SCRATCHPAD_LIST", internal=True, of_teammates=True,
            needs="several"),
    ToolRow("ToolSearch", Kind.LOOK, "swarm.capabilities.mcp.server_tools:TOOL_SEARCH", "query", internal=True, needs="servers"),
    ToolRow("ListMcpResources", Kind.LOOK, "swarm.capabilities.mcp.server_tools:LIST_RESOURCES", "server", "value", internal=True,
            needs="servers",
            aliases="listmcpresourcestool"),
    ToolRow("ReadMcpResource", Kind.LOOK, "swarm.capabilities.mcp.server_tools:READ_RESOURCE", "uri", "value", network=True,
            needs="servers",
            aliases="readmcpresourcetool"),
    ToolRow("ListMcpPrompts", Kind.LOOK, "swarm.capabilities.mcp.server_tools:LIST_PROMPTS", "server", "value", internal=True,
            needs="servers"),
    ToolRow("GetMcpPrompt", Kind.LOOK, "swarm.capabilities.mcp.server_tools:GET_PROMPT", "name", "value", network=True, needs="servers"),
    ToolRow("Memory", Kind.SHARED, "swarm.capabilities.memory.memory_tool:MEMORY", "path", needs="memory"),
)
# fmt: on

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MCP = "mcp__"
_rows: dict[str, ToolRow] = {}
_by_alias: dict[str, str] = {}


def declare(*rows: ToolRow) -> None:
    """Add tools to the table, for the life of this process; the same row again changes nothing.

    Raises `ConfigurationError` for a name that cannot be a tool's, or that another row or another system's tool has.
    """
    for row in rows:
        if reason := refuse_name(row.name):
            raise ConfigurationError(reason)
        if _rows.get(row.name, row) != row or _by_alias.get(_spelling(row.name), row.name) != row.name:
            raise ConfigurationError(f"there is a tool {row.name!r} already; give the one of {row.home} another name")
        _rows[row.name] = row
        for alias in (_spelling(row.name), *row.aliases.split()):
            _by_alias.setdefault(alias, row.name)


def refuse_name(name: str) -> str:
    """Why this cannot be a tool's name; empty if it can."""
    if _NAME.fullmatch(name) and not name.startswith(_MCP):
        return ""
    return f"{name[:80]!r} cannot be a tool's name; use 1 to 64 letters, digits and '_', a letter first"


def row_of(name: str) -> ToolRow:
    """What is known about a tool by its canonical name; one that nobody knows counts as having effects."""
    found = _rows.get(name)
    if found is None:
        return ToolRow(name, in_background=name.startswith(_MCP))
    return found


def all_rows() -> tuple[ToolRow, ...]:
    """Every row, in the order in which models are given the tools."""
    return tuple(_rows.values())


def known_tools() -> frozenset[str]:
    """The names of all tools in the table."""
    return frozenset(_rows)


def find_alias(name: str) -> str | None:
    """Our name for a tool that goes by this name, here or in another system; `read_file` and `ReadFile` are one."""
    return _by_alias.get(_spelling(name))


def matches_tool(pattern: str, name: str) -> bool:
    """Whether a name or pattern means this tool; `mcp__server` means every tool of that server."""
    if is_mcp(pattern) and pattern.count("__") == 1 and fnmatchcase(name, f"{pattern}__*"):
        return True
    return pattern == name or fnmatchcase(name, pattern)


def is_mcp(name: str) -> bool:
    """Whether a name or pattern is of tools of MCP servers, `mcp__server__tool`."""
    return name.startswith(_MCP)


def _spelling(name: str) -> str:
    return re.sub("[_-]", "", name).lower()


declare(*_BUILTIN)
