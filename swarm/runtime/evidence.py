"""Lists the commands that a worker ran, from its journal, for the judge of its report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from swarm.agent.coordination.ledger import WorkOrder
from swarm.agent.coordination.messages import can_go_on
from swarm.agent.entries import Assistant, Entry, ToolFinished
from swarm.agent.history import History
from swarm.definitions.tools import row_of
from swarm.mailbox import Message, render_note

JournalOf = Callable[[str], Iterable[Entry]]

MOST_SHOWN = 10
_SHOWN_CHARACTERS = 120
_EXIT = re.compile(r"\[exit code (\d+)\]")


def add_to_report(history: History, call_id: str, text: str, journal_of: JournalOf) -> str:
    """Add notes about the work order and the worker's commands to the coordinator's report."""
    if history.ledger is None or history.spec is None:
        return text
    order = next((order for order in history.ledger.orders if order.call_id == call_id), None)
    if order is None:
        return text
    parts = [history.notes.get(call_id, ""), text, *_about(order, history.spec.definition.coordination, journal_of)]
    return "\n".join(filter(None, parts))


def add_to_mail(history: History, messages: Sequence[Message], journal_of: JournalOf) -> str:
    """Describe the evidence for workers whose end these messages report; empty if there is none."""
    if history.ledger is None or history.spec is None:
        return ""
    lines = []
    for sender in dict.fromkeys(message.sender for message in messages if message.kind == "notification"):
        for order in history.ledger.find(sender)[-1:]:
            about = _about(order, history.spec.definition.coordination, journal_of)
            lines += [f"About {order.name or sender}:", *about] if about else []
    return "\n\n" + render_note("\n".join(lines)) if lines else ""


def _about(order: WorkOrder, rules: Sequence[str], journal_of: JournalOf) -> list[str]:
    if order.phase == "research":
        return []
    go_on = order.phase == "implementation" and order.files and "hints" in rules
    evidence = describe_evidence(journal_of(order.agent_id))
    return [evidence, can_go_on(order.name or order.agent_id, order.files)] if go_on else [evidence]


def list_commands(entries: Iterable[Entry]) -> list[str]:
    """List the last shell commands of a history with results: `` `pytest -q`: exit code 1 ``."""
    commands: dict[str, str] = {}
    ran: list[str] = []
    for entry in entries:
        match entry:
            case Assistant():
                for block in entry.content:
                    row = row_of(str(block.get("name", "")))
                    if (
                        block.get("type") == "tool_use"
                        and row.matching == "command"
                        and isinstance(block["input"], dict)
                    ):
                        commands[block["id"]] = " ".join(str(block["input"].get(row.subject, "")).split())
            case ToolFinished() if entry.tool_use_id in commands:
                ran.append(f"`{commands[entry.tool_use_id][:_SHOWN_CHARACTERS]}`: {_ending(entry)}")
    return ran[-MOST_SHOWN:]


def describe_evidence(entries: Iterable[Entry]) -> str:
    """Describe the commands of `list_commands` in a paragraph."""
    commands = list_commands(entries)
    if not commands:
        return "[Its journal shows no commands.]"
    return "[Commands that it ran, by its journal:\n" + "\n".join(f"- ran {line}" for line in commands) + "]"


def _ending(entry: ToolFinished) -> str:
    codes = _EXIT.findall(entry.text)
    if codes:
        return f"exit code {codes[-1]}"
    return "failed" if entry.is_error else "exit code 0"
