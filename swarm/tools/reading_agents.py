"""Reading along: what an agent below the caller has said and done so far, by page, and its result once it has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swarm.agent.entries import Assistant, Compacted, Entry, Finished, Mail, Prompt, ToolFinished
from swarm.core.errors import ToolError
from swarm.core.records import AgentView
from swarm.definitions.tools import row_of
from swarm.models import Block
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.agents import find_below
from swarm.tools.schemas import integer, string

PAGE_CHARACTERS = 16_000
_MAX_LINE_CHARACTERS = 600


def _read(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    agent = find_below(context, given["agent_id"])
    journal = list(context.store.journals.read(agent.id))
    told = [(number, text) for number, entry in enumerate(journal, 1) if (text := _tell(entry))]
    if not told:
        return ToolResult(text=f"{_head(agent)}\nIt has not begun.")
    first = given.get("offset")
    page = _page_from(told, int(first)) if first is not None else _last_page(told)
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


def _page_from(told: list[tuple[int, str]], first: int) -> list[tuple[int, str]]:
    page: list[tuple[int, str]] = []
    size = 0
    for number, text in told:
        if number < first:
            continue
        if page and size + len(text) > PAGE_CHARACTERS:
            break
        page.append((number, text))
        size += len(text)
    return page


def _last_page(told: list[tuple[int, str]]) -> list[tuple[int, str]]:
    size, start = 0, len(told)
    while start > 0 and (start == len(told) or size + len(told[start - 1][1]) <= PAGE_CHARACTERS):
        start -= 1
        size += len(told[start][1])
    return told[start:]


def _tell(entry: Entry) -> str:
    """An entry in a line or, of what was said, in whole; empty for what is the runtime's own."""
    match entry:
        case Prompt():
            return f"told: {_short(entry.text)}"
        case Mail():
            return f"got: {_short(entry.text)}"
        case Assistant():
            return "\n   ".join(_tell_reply(entry.content))
        case ToolFinished():
            return f"{'failed' if entry.is_error else 'result'}: {_short(entry.text)}"
        case Compacted():
            return "(what came before was summed up)"
        case Finished():
            why = f" ({entry.reason})" if entry.reason else ""
            return f"ended, {entry.state}{why}:\n{entry.text or '(no text)'}"
    return ""


def _tell_reply(content: list[Block]) -> Iterator[str]:
    for block in content:
        if block.get("type") == "text" and str(block.get("text", "")).strip():
            yield f"said: {str(block['text']).strip()}"
        elif block.get("type") == "tool_use":
            given = block.get("input")
            yield f"called: {_short(row_of(block['name']).describe(given if isinstance(given, dict) else {}))}"


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
