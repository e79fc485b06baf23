"""One agent's journal: nobody else wrote into it, it ended once for each time it began, every call came to one result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.chaos.check.dump import History
from tests.chaos.check.verdict import Fault

TERMINAL = ("completed", "failed", "cancelled", "timed_out")
INTERRUPTED = "This call was interrupted"


def entries_of(history: History, *kinds: str) -> list[dict[str, Any]]:
    """Its entries of these kinds, in order."""
    return [entry for _, entry in history.journal if entry["kind"] in kinds]


def calls_of(history: History) -> list[dict[str, Any]]:
    """Every call that its model, or its program, has asked for, in order."""
    return [block for _, entry in history.journal for block in _asked(entry)]


def _asked(entry: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = {"assistant": "content", "advanced": "calls"}.get(entry["kind"], "")
    return [block for block in entry.get(blocks, ()) if block.get("type") == "tool_use"]


def results_of(history: History) -> dict[str, dict[str, Any]]:
    """The result of each call, by its id."""
    return {entry["tool_use_id"]: entry for entry in entries_of(history, "tool_finished")}


def end_of(history: History) -> dict[str, Any] | None:
    """Its last end, if it has one."""
    ends = entries_of(history, "finished")
    return ends[-1] if ends else None


def completed(history: History) -> bool:
    """Whether it came to an end of its own."""
    end = end_of(history)
    return end is not None and end["state"] == "completed"


def interruptions(history: History) -> int:
    """How many of its calls were told to be interrupted."""
    return sum(entry["text"].startswith(INTERRUPTED) for entry in entries_of(history, "tool_finished"))


def check_history(history: History) -> Iterator[Fault]:
    """Whatever its own journal gives away."""
    yield from _check_numbers(history)
    yield from _check_ends(history)
    yield from _check_calls(history)


def _check_numbers(history: History) -> Iterator[Fault]:
    wanted = 1
    for entry_id, _ in history.journal:
        number = int(entry_id.partition("-")[0])
        if number > wanted:
            yield Fault("lost", "entry", history.id, f"no entry {wanted} to {number - 1}", number - wanted)
        elif number < wanted or entry_id != f"{number}-0":
            yield Fault("doubled", "entry", history.id, f"the entry {entry_id} comes after {wanted - 1}")
        wanted = number + 1
    # The record counts along; what it counts and the journal does not hold was taken away from its end.
    counted = int(history.record.get("length", len(history.journal)))
    if counted > wanted - 1:
        yield Fault("lost", "entry", history.id, f"no entry {wanted} to {counted}", counted - wanted + 1)
    generations = [entry["generation"] for _, entry in history.journal]
    for before, after in zip(generations, generations[1:], strict=False):
        if after < before:
            yield Fault("reordered", "entry", history.id, f"claim {before} had written when claim {after} still wrote")


def _check_ends(history: History) -> Iterator[Fault]:
    kinds = [entry["kind"] for _, entry in history.journal]
    if kinds[:1] != ["started"] or kinds.count("started") != 1:
        yield Fault(
            "wrong", "agent", history.id, f"its journal begins with {kinds[:1]}, {kinds.count('started')} times"
        )
    lives = False
    runs = 0
    for kind in kinds:
        if kind == "finished" and not lives:
            yield Fault("doubled", "agent", history.id, "it ended, and ended again")
        lives = kind != "finished" and (lives or kind in ("started", "resumed"))
        runs += kind in ("started", "resumed")
    if lives or not runs:
        yield Fault("lost", "agent", history.id, "it has begun and never ended" if runs else "it has never begun")
    state, end = history.record.get("state", ""), end_of(history)
    if state not in TERMINAL or (end is not None and state != end["state"]):
        yield Fault("wrong", "agent", history.id, f"its record says {state!r}, its journal {end and end['state']!r}")


def _check_calls(history: History) -> Iterator[Fault]:
    asked: dict[str, str] = {}
    dropped: set[str] = set()
    began: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    # A fork begins with calls of its parent's.
    forked = any(entry["spec"].get("fork") for entry in entries_of(history, "started"))
    for _, entry in history.journal:
        match entry["kind"]:
            case "assistant" | "advanced":
                for block in _asked(entry):
                    if block["id"] in asked:
                        yield Fault("doubled", "call", history.id, f"two calls have the id {block['id']}")
                    asked[block["id"]] = block["name"]
                dropped |= set(entry.get("dropped", ()))
            case "tool_started":
                call = entry["tool_use_id"]
                began[call] += 1
                if call not in asked or ended[call]:
                    yield Fault("wrong", "call", history.id, f"{call} began when nobody waited for it")
            case "tool_finished":
                ended[entry["tool_use_id"]] += 1
                if entry["tool_use_id"] not in asked and not forked:
                    yield Fault(
                        "wrong", "call", history.id, f"{entry['tool_use_id']} has a result before it was asked for"
                    )
    for call, times in began.items():
        if times > 1:
            yield Fault("doubled", "call", history.id, f"{call} was begun {times} times", times - 1)
        # An end from outside says itself that the agent was interrupted.
        if not ended[call] and (completed(history) or end_of(history) is None):
            yield Fault("unfinished", "call", history.id, f"{call} began, and nothing tells what became of it")
    for call, times in ended.items():
        if times > 1:
            yield Fault("doubled", "call", history.id, f"{call} has {times} results", times - 1)
    if completed(history):
        for call in asked.keys() - ended.keys() - began.keys() - dropped:
            yield Fault("lost", "call", history.id, f"{call} ({asked[call]}) has no result")


def prompt_of(history: History) -> str:
    """The agent's task, also of one that was ended before it began."""
    first = entries_of(history, "started")[:1]
    spec = first[0]["spec"] if first else json.loads(history.record["spec"])
    return str(spec["prompt"])
