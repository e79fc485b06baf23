"""Reading along: what an agent below the caller has said and done so far, by page, and its result once it has one."""

from __future__ import annotations

from typing import Any

from swarm.agent.items import as_text, page_of
from swarm.agent.transcript import tell
from swarm.core.errors import ToolError
from swarm.core.records import AgentView
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.agents import find_below
from swarm.tools.schemas import integer, string

PAGE_CHARACTERS = 16_000
_MAX_LINE_CHARACTERS = 600


def _read(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    agent = find_below(context, given["agent_id"])
    journal = list(context.store.journals.read(agent.id))
    told = [(number, text) for number, item in enumerate(tell(journal), 1) if (text := as_text(item, _short))]
    if not told:
        return ToolResult(text=f"{_head(agent)}\nIt has not begun.")
    first = given.get("offset")
    if first is None:
        page = page_of(reversed(told), PAGE_CHARACTERS)[::-1]
    else:
        page = page_of((each for each in told if each[0] >= first), PAGE_CHARACTERS)
    if not page:
        raise ToolError(
            f"{agent.id} has {len(journal)} entries so far; there is none from {first} on that says something"
        )
    last = told[-1][0]
    lines = [f"{_head(agent)}, entries {page[0][0]} to {page[-1][0]} of {last}"]
    lines += [f"{number}. {text}" for number, text in page]
    if page[-1][0] < last:
        lines.append(f"(More: offset {page[-1][0] + 1}.)")
    elif page[0][0] > told[0][0]:
        lines.append("(Earlier ones: offset 1.)")
    return ToolResult(text="\n".join(lines))


def _head(agent: AgentView) -> str:
    state = "idle" if agent.idle else agent.state
    now = f", {agent.activity}" if agent.at_work and agent.activity else ""
    return f"[{agent.label.split(':', 1)[0]} {agent.id}: {state}{now}; {agent.turns} turns, {agent.usage.total_tokens} tokens]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[: _MAX_LINE_CHARACTERS - 1]}…"


READ_AGENT = Tool(
    name="ReadAgent",
    description=(
        "Read what an agent that you started, or one below it, has said and done so far, also while it runs, and the result of one that "
        "has ended, as often as you like. By page: the latest without `offset`. Results of background agents arrive by themselves; this "
        "is for looking in, not for waiting."
    ),
    parameters={
        "agent_id": string("Its id or name."),
        "offset": integer("The entry to begin with; default: the last page.", minimum=1),
    },
    required=["agent_id"],
    run=_read,
)
