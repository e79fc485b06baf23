"""Rules for a coordinator's orders and its end. Each is a function of the ledger and the call.

Plain patterns decide whether a prompt can stand alone, so that a refusal can be foreseen. While an agent writes to files, no other is
started on the same ones: leases, on paths as the coordinator writes them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swarm.agent.coordination import messages
from swarm.agent.coordination.ledger import WorkLedger, WorkOrder
from swarm.agent.entries import Prompt
from swarm.definitions.tools import row_of
from swarm.models import Block

if TYPE_CHECKING:
    from swarm.agent.history import History

MOST_SENT_BACK = 2
"""Consecutive prompts that are sent back; the next one is let through, with a note."""
MOST_END_REFUSED = 2
"""Refusals of an end before it is let through, with a note."""
LEAST_CHARACTERS = 40
LEAST_TO_IMPLEMENT = 120

_ELSEWHERE = (
    r"\bbased on (?:your|the|their|its|these|those) (?:\w+ )?(?:findings?|research|reports?|results?|analys[ei]s|investigation)\b",
    r"\bas (?:we |you |already |was |were )*(?:discussed|agreed|decided|mentioned|described|explained|noted)\b(?! in| by| at)",
    r"\b(?:the|see|as|from|listed|mentioned|described|shown) above\b",
    r"\b(?:the|that|this) (?:\w+ )?(?:bugs?|issues?|problems?|errors?|causes?|files?|functions?|places?) (?:that |which )?"
    r"(?:we|you|they|it|the \w+) (?:\w+ )?(?:found|identified|discussed|discovered|saw|located|reported)\b",
    r"\b(?:your|the|our) (?:previous|earlier|prior|last) "
    r"(?:findings?|reports?|analys[ei]s|conversation|discussion|message|investigation)\b",
    r"\b(?:fix|implement|change|do|handle|address) (?:it|this|that|them|everything) "
    r"(?:accordingly|as (?:needed|appropriate|necessary|you see fit))\b",
    r"\byou (?:already )?know (?:what|how|where)\b",
    r"\bthe (?:other|previous) (?:agent|worker)'?s? (?:found|said|findings?|reports?|results?)\b",
)
"""Patterns of references that the reader cannot see, or that leave the understanding to it."""
_POINTING = re.compile("|".join(f"(?:{pattern})" for pattern in _ELSEWHERE), re.IGNORECASE)
_PLACE = re.compile(
    r"""[\w.-]+/[\w./-]+            # a path
      | \b[\w-]+\.[A-Za-z]\w{0,5}\b  # a file
      | `[^`\n]+`                    # anything marked as code
      | \b\w+\(\)                    # a function
      | \b[A-Za-z]+_\w+\b            # snake_case
      | \b[A-Z][a-z0-9]+[A-Z]\w*\b   # CamelCase""",
    re.VERBOSE,
)
_GLOB = re.compile(r"[*?\[]")


@dataclass
class Review:
    """The decisions about some orders, by tool_use id."""

    refused: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """Notes about orders that are carried out."""


def review_orders(calls: Sequence[Block], history: History) -> Review:
    """Judge the `Agent` calls of one reply in order; accepted ones count for those after them."""
    review, ledger = Review(), history.ledger
    if ledger is None or history.spec is None:
        return review
    rules: set[str] = set(history.spec.definition.coordination)
    if history.spec.is_carried:
        # Each agent writes to its own copy.
        rules.discard("leases")
    can_conclude = any(row_of(name).concludes for name in history.tool_names())
    batch = _CallBatch(ledger, rules, can_conclude=can_conclude)
    for call in calls:
        given = call["input"] if isinstance(call["input"], dict) else {}
        refusal, notes = batch.judge(given)
        if refusal:
            review.refused[call["id"]] = refusal
            continue
        if notes:
            review.notes[call["id"]] = "\n".join(notes)
        batch.take(given)
    return review


@dataclass
class _CallBatch:
    """The ledger and the accepted orders of this reply."""

    ledger: WorkLedger
    rules: set[str]
    can_conclude: bool
    research: list[str] = field(default_factory=list)
    writers: list[WorkOrder] = field(default_factory=list)
    sent_back: int = 0

    def __post_init__(self) -> None:
        self.research = [_called(order) for order in self.ledger.open("research")]
        self.writers = self.ledger.open("implementation")
        self.sent_back = self.ledger.sent_back

    def judge(self, given: dict[str, Any]) -> tuple[str, list[str]]:
        """Return why an order is refused, or notes for an accepted one."""
        goes_on = _goes_on(given)
        if refusal := self._refuse(given, goes_on):
            return refusal, []
        gap = "" if "self-contained" not in self.rules or goes_on else find_gap(given)
        if gap and self.sent_back < MOST_SENT_BACK:
            self.sent_back += 1
            return messages.sent_back(gap), []
        hint = _find_hint(given, self.ledger) if "hints" in self.rules and not goes_on else ""
        return "", list(filter(None, (messages.let_through(gap) if gap else "", hint)))

    def take(self, given: dict[str, Any]) -> None:
        description, name = str(given.get("description", "")), str(given.get("name") or "")
        if given.get("phase") == "research":
            self.research.append(description)
        elif given.get("phase") == "implementation":
            files = tuple(map(str, given.get("files") or ()))
            who = "an agent of this reply"
            self.writers.append(
                WorkOrder("", who, "implementation", description, files, name, given_at=0, background=False)
            )

    def _refuse(self, given: dict[str, Any], goes_on: str) -> str:
        phase = given.get("phase")
        if phase is None:
            return messages.NO_PHASE
        if phase == "verification" and "verification" in self.rules and goes_on:
            built = any(order.phase == "implementation" for order in self.ledger.find(goes_on))
            return messages.SAME_HANDS.format(who=goes_on) if built else ""
        if phase != "implementation":
            return ""
        refusal = self._refuse_unread() if "synthesis" in self.rules else ""
        return refusal or (self._refuse_files(given, goes_on) if "leases" in self.rules else "")

    def _refuse_unread(self) -> str:
        """Refuse an implementation while research runs, or before its reports are summed up."""
        if self.research:
            return messages.research_runs(self.research)
        reported_at = max((order.ended_at or 0 for order in self.ledger.of_phase("research")), default=0)
        return messages.NO_SYNTHESIS if self.can_conclude and reported_at > self.ledger.concluded_at else ""

    def _refuse_files(self, given: dict[str, Any], goes_on: str) -> str:
        files = list(map(str, given.get("files") or ()))
        if not files:
            return messages.NO_FILES
        others = [order for order in self.writers if goes_on not in (order.agent_id, order.name) or not goes_on]
        if held := find_holder(files, others):
            return messages.file_is_held(held[1], _called(held[0]), held[0].description)
        return ""


def _find_hint(given: dict[str, Any], ledger: WorkLedger) -> str:
    files = list(map(str, given.get("files") or ()))
    if given.get("phase") != "implementation" or not files:
        return ""
    known = {
        order: sum(any(overlap(file, own) for own in order.files) for file in files)
        for order in ledger.orders
        if order.ended_at is not None and order.state == "completed" and order.phase != "verification"
    }
    best = max(known, key=lambda order: known[order], default=None)
    if best is None or known[best] * 2 <= len(files):
        return ""
    return messages.knows_files(_called(best), best.description, known[best], len(files))


def find_unverified(ledger: WorkLedger) -> list[WorkOrder]:
    """Return the implementations without a later successful verification by another agent."""
    passed = [
        order
        for order in ledger.of_phase("verification")
        if order.state == "completed" and order.verdict == "PASS" and order.tools > 0
    ]
    return [
        built
        for built in ledger.of_phase("implementation")
        if not any(seen.given_at > built.last_at and seen.agent_id != built.agent_id for seen in passed)
    ]


def refuse_end(history: History) -> Prompt | None:
    """Return the message that refuses an early end; None if the agent may end."""
    ledger = history.ledger
    if not _holds_end(history) or ledger is None or ledger.open() or ledger.end_refused >= MOST_END_REFUSED:
        return None
    unverified = find_unverified(ledger)
    if not unverified:
        return None
    return Prompt(text=messages.not_verified(_name_all(unverified)), purpose="coordination")


def note_end(history: History) -> str:
    """Return the note on an end that was insisted on; empty if none is needed."""
    unverified = find_unverified(history.ledger) if _holds_end(history) and history.ledger is not None else []
    return messages.ended_unverified(_name_all(unverified)) if unverified else ""


def _holds_end(history: History) -> bool:
    return history.spec is not None and "verification" in history.spec.definition.coordination


def _name_all(orders: Sequence[WorkOrder]) -> list[str]:
    named = [
        f"{order.description} ({', '.join(order.files[:3])})" if order.files else order.description for order in orders
    ]
    return named if len(named) <= 5 else [*named[:5], f"{len(named) - 5} more"]


def _called(order: WorkOrder) -> str:
    return order.name or order.agent_id


def _goes_on(given: dict[str, Any]) -> str:
    return str(given.get("agent_id") or "")


# -- prompts -----------------------------------------------------------------------------------------------------


def find_gap(given: Mapping[str, Any]) -> str:
    """Explain in a sentence why an `Agent` call's prompt cannot stand alone; empty if it can."""
    prompt, phase = str(given.get("prompt", "")), given.get("phase")
    if found := _POINTING.search(prompt):
        what = " ".join(found[0].split())
        return f"{what!r} refers to something that the worker cannot see: describe it, with paths and lines"
    implements = phase == "implementation"
    least = LEAST_TO_IMPLEMENT if implements else LEAST_CHARACTERS
    if len(prompt.strip()) < least:
        return (
            f"it has {len(prompt.strip())} characters, and a worker knows nothing else: give at least {least}, "
            "with goal, facts and what to report"
        )
    if implements and not _PLACE.search(prompt):
        return "it names no file and no symbol: say where the change is to be made"
    if implements and not str(given.get("done_when") or "").strip():
        return "`done_when` is missing: say how to see that this part is done"
    return ""


# -- leases ------------------------------------------------------------------------------------------------------


def find_holder(files: Sequence[str], orders: Iterable[WorkOrder]) -> tuple[WorkOrder, str] | None:
    """Find an order that holds one of these files, and the file; None if none does."""
    for order in orders:
        for held in order.files:
            for wanted in files:
                if overlap(wanted, held):
                    return order, wanted
    return None


def overlap(one: str, other: str) -> bool:
    """Whether two paths or patterns can mean the same file; a folder includes everything below it."""
    return _within(one, other) or _within(other, one)


def _within(path: str, folder: str) -> bool:
    below, above = _fixed(path), _fixed(folder)
    return above == "" or below == above or below.startswith(f"{above}/")


def _fixed(pattern: str) -> str:
    """Return the path, or the folder of all matches of a pattern; empty for the whole workspace."""
    path = posixpath.normpath(pattern.strip().replace("\\", "/") or ".").lstrip("/")
    parts = path.split("/")
    kept = next((at for at, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    fixed = "/".join(parts[:kept])
    return "" if fixed == "." else fixed
