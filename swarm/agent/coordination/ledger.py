"""The ledger of a coordinator: its orders, their results, and its latest conclusions.

Times are numbers of journal entries, so the same journal gives the same ledger anywhere. An agent's end is known from the runtime's
results and notices; no worker can forge one, because its text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any, Literal

from swarm.agent.coordination.messages import SENT_BACK
from swarm.agent.entries import Assistant, Entry, Mail, Prompt, Spawned, ToolFinished
from swarm.definitions.model import Phase
from swarm.definitions.tools import Kind, row_of
from swarm.models import Block

VerdictWord = Literal["", "PASS", "FAIL", "PARTIAL"]
_NOTICE = re.compile(r"<task-notification>\n(.*?)\n</task-notification>", re.S)
_TAG = re.compile(r"<(task-id|status|result|usage)>(.*?)</\1>", re.S)
_VERDICT = re.compile(r"^\W*VERDICT\W+(PASS|FAIL|PARTIAL)\b", re.M)
_TOOLS = re.compile(r"\b(\d+) tool calls\b")
_HEAD = re.compile(r"\[[^\n\]]*: (\w+), (\d+) tool calls,")


@dataclass(frozen=True)
class WorkOrder:
    """One call that started or continued an agent."""

    call_id: str
    agent_id: str
    phase: Phase
    description: str
    files: tuple[str, ...]
    name: str
    given_at: int
    background: bool
    ended_at: int | None = None
    state: str = ""
    """The end state."""
    verdict: VerdictWord = ""
    tools: int = 0
    """Tool calls of the agent by its end."""
    touched_at: int = 0
    """Last message to the agent after its end, which may have continued it."""

    @property
    def last_at(self) -> int:
        """Latest known time at which the agent can have changed something."""
        return max(self.ended_at or 0, self.touched_at, self.given_at)


@dataclass
class WorkLedger:
    """A coordinator's orders. Read only: only `note` changes the fields."""

    orders: list[WorkOrder] = field(default_factory=list)
    concluded_at: int = 0
    """Entry number of the coordinator's last page for others."""
    sent_back: int = 0
    """Prompts sent back since the last accepted one."""
    end_refused: int = 0
    """Refusals of an end since the last order."""
    _calls: dict[str, Block] = field(default_factory=dict)

    def note(self, entry: Entry, number: int) -> None:
        """Take in the journal's entry of this number."""
        match entry:
            case Assistant():
                self._calls = {block["id"]: block for block in entry.content if block.get("type") == "tool_use"}
            case Spawned():
                self.orders += [
                    _order(self._calls[call_id], agent_id, number, background=call_id in entry.background)
                    for call_id, agent_id in entry.children.items()
                    if call_id in self._calls
                ]
                self.sent_back = self.end_refused = 0
            case ToolFinished():
                self._note_result(entry, number)
            case Prompt(purpose="coordination"):
                self.end_refused += 1
            case Mail():
                for agent_id, about in _read_notices(entry.text):
                    self._close(agent_id, number, **about)

    def _note_result(self, entry: ToolFinished, number: int) -> None:
        call = self._calls.get(entry.tool_use_id)
        if call is None:
            return
        row = row_of(call["name"])
        if row.kind is Kind.SPAWN:
            self._note_child(entry, number)
        elif row.concludes and not entry.is_error:
            self.concluded_at = number
        elif row.kind is Kind.SEND and not entry.is_error:
            to = str(call["input"].get("to", ""))
            self.orders = [
                replace(order, touched_at=number) if to in (order.agent_id, order.name, "*") else order
                for order in self.orders
            ]

    def _note_child(self, entry: ToolFinished, number: int) -> None:
        order = next((order for order in self.orders if order.call_id == entry.tool_use_id), None)
        if order is None:
            self.sent_back += entry.text.startswith(SENT_BACK)
        elif not order.background and (head := _HEAD.search(entry.text)):
            told = {"state": head[1], "tools": int(head[2]), "verdict": read_verdict(entry.text)}
            self._close(order.agent_id, number, **told)

    def _close(self, agent_id: str, number: int, **about: Any) -> None:
        for at in reversed(range(len(self.orders))):
            if self.orders[at].agent_id == agent_id:
                self.orders[at] = replace(self.orders[at], ended_at=number, **about)
                return

    # -- reading -------------------------------------------------------------------------------------------

    def of_phase(self, phase: Phase) -> list[WorkOrder]:
        """Return the orders of a phase, oldest first."""
        return [order for order in self.orders if order.phase == phase]

    def open(self, phase: Phase | None = None) -> list[WorkOrder]:
        """Return the orders without a result."""
        return [order for order in self.orders if order.ended_at is None and phase in (None, order.phase)]

    def find(self, who: str) -> list[WorkOrder]:
        """Return the orders of an agent, by its id or name."""
        ids = {order.agent_id for order in self.orders if who in (order.agent_id, order.name)}
        return [order for order in self.orders if order.agent_id in ids]


def read_verdict(text: str) -> VerdictWord:
    """Return the last verdict line of a report."""
    found = _VERDICT.findall(text)
    return found[-1] if found else ""


def _order(call: Block, agent_id: str, number: int, *, background: bool) -> WorkOrder:
    given = call["input"]
    return WorkOrder(
        call_id=call["id"],
        agent_id=agent_id,
        phase=given.get("phase", "implementation"),
        description=str(given.get("description", "")),
        files=tuple(map(str, given.get("files") or ())),
        name=str(given.get("name") or ""),
        given_at=number,
        background=background,
    )


def _read_notices(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for inside in _NOTICE.findall(text):
        parts = {tag: unescape(value) for tag, value in _TAG.findall(inside)}
        tools = _TOOLS.search(parts.get("usage", ""))
        yield (
            parts.get("task-id", ""),
            {
                "state": parts.get("status", ""),
                "verdict": read_verdict(parts.get("result", "")),
                "tools": int(tools[1]) if tools else 0,
            },
        )
