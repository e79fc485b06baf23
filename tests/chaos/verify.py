"""What must be true once a job is over, whatever was killed on the way: checked from the journals alone. Pure.

`check` answers one line for each broken promise; an empty list is the only good answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swarm.agent.entries import Assistant, Entry, Finished, Resumed, Spawned, ToolFinished
from swarm.agent.life import fold
from swarm.agent.notes import INTERRUPTED
from swarm.errors import JournalError
from swarm.models import Usage
from swarm.store.values import NANO

_EFFECT = re.compile(r"^echo (\S+) >> effects\.log$")
_DONE = re.compile(r"^DONE (\d+)$")


@dataclass(frozen=True)
class Evidence:
    """All that is left of a finished job."""

    root_id: str
    agents: Sequence[str]
    """Every agent that the job's record names."""
    journals: Mapping[str, Sequence[tuple[str, Entry]]]
    """Agent → its entries, each with the id it has in the stream."""
    sums: Mapping[str, int]
    """What the job's record counts: agents, turns, input, output, cache_write, cache_read, cost."""
    effects: Sequence[str] = ()
    """The lines of `effects.log`."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """How much each key still holds that must be empty when nothing runs."""


def check(evidence: Evidence, *, tree: bool = True) -> list[str]:
    """Every broken promise, as one line; `tree` says that the root must answer `DONE n` with all n agents counted."""
    broken = list(_check_family(evidence))
    for agent_id, journal in evidence.journals.items():
        broken += [f"{agent_id}: {fault}" for fault in _check_life(agent_id, journal)]
    broken += _check_sums(evidence)
    broken += _check_effects(evidence)
    if tree:
        broken += _check_answer(evidence)
    broken += [f"key {name} still holds {size}" for name, size in evidence.keys.items() if size]
    return broken


def lost(evidence: Evidence) -> int:
    """How many agents were spawned and never came to an end."""
    named = {*evidence.agents, *_descendants(evidence)}
    return sum(not any(isinstance(entry, Finished) for _, entry in evidence.journals.get(i, ())) for i in named)


def doubled(evidence: Evidence) -> int:
    """How often something happened once more than it may: an agent's end, or an effect."""
    ends = (sum(isinstance(entry, Finished) for _, entry in journal) for journal in evidence.journals.values())
    asked = _asked_effects(evidence)
    lines = Counter(evidence.effects)
    return sum(max(0, n - 1) for n in ends) + sum(max(0, n - len(asked.get(line, ()))) for line, n in lines.items())


def interrupted(evidence: Evidence) -> int:
    """How many calls were reported to the model as interrupted."""
    return sum(
        isinstance(entry, ToolFinished) and entry.text == INTERRUPTED
        for journal in evidence.journals.values()
        for _, entry in journal
    )


# -- the promises --------------------------------------------------------------------------------------------


def _check_family(evidence: Evidence) -> Iterator[str]:
    born = _descendants(evidence)
    twice = [agent_id for agent_id, times in Counter(born).items() if times > 1]
    if twice:
        yield f"agents that more than one call spawned: {twice}"
    known = set(evidence.agents)
    if known != set(born):
        yield f"agents without a parent's entry: {sorted(known - set(born))}; spawned but unknown: {sorted(set(born) - known)}"
    if evidence.sums["agents"] != len(known):
        yield f"the job counts {evidence.sums['agents']} agents and names {len(known)}"


def _descendants(evidence: Evidence) -> list[str]:
    """The root and all that was spawned below it, as the parents' journals tell."""
    found, waiting = [], [evidence.root_id]
    while waiting:
        agent_id = waiting.pop()
        found.append(agent_id)
        for _, entry in evidence.journals.get(agent_id, ()):
            if isinstance(entry, Spawned):
                waiting += entry.children.values()
    return found


def _check_life(agent_id: str, journal: Sequence[tuple[str, Entry]]) -> Iterator[str]:
    ids = [entry_id for entry_id, _ in journal]
    if ids != [f"{number}-0" for number in range(1, len(journal) + 1)]:
        yield f"its entries are numbered {ids}"
    entries = [entry for _, entry in journal]
    ends = [number for number, entry in enumerate(entries, 1) if isinstance(entry, Finished)]
    runs = 1 + sum(isinstance(entry, Resumed) for entry in entries)
    if len(ends) != runs or ends[-1] != len(entries):
        yield f"it ended {len(ends)} times in {runs} runs, at entries {ends} of {len(entries)}"
    generations = [entry.generation for entry in entries]
    if generations != sorted(generations):
        yield f"an earlier claim wrote after a later one: generations {generations}"
    try:
        fold(agent_id, entries)
    except JournalError as error:
        yield f"its journal is no life: {error}"
    results = Counter(entry.tool_use_id for entry in entries if isinstance(entry, ToolFinished))
    for call_id, times in results.items():
        if times > 1:
            yield f"the call {call_id} has {times} results"


def _check_sums(evidence: Evidence) -> Iterator[str]:
    replies = [e for journal in evidence.journals.values() for _, e in journal if isinstance(e, Assistant)]
    usage = sum((reply.usage for reply in replies), Usage())
    told = {
        "turns": len(replies),
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache_write": usage.cache_creation_input_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cost": sum(round(reply.cost_usd * NANO) for reply in replies),
    }
    for name, amount in told.items():
        if evidence.sums.get(name, 0) != amount:
            yield f"the job counts {name} {evidence.sums.get(name, 0)}, its journals {amount}"


def _check_answer(evidence: Evidence) -> Iterator[str]:
    root = evidence.journals.get(evidence.root_id, ())
    end = next((entry for _, entry in root if isinstance(entry, Finished)), None)
    answer = _DONE.match(end.text) if end is not None else None
    if end is None or answer is None or end.state != "completed":
        said = None if end is None else (end.state, end.text, end.reason)
        yield f"the root should have completed with DONE n, and said {said}"
    elif int(answer[1]) != len(evidence.agents):
        yield f"the root counts {answer[1]} agents, the job {len(evidence.agents)}"


def _asked_effects(evidence: Evidence) -> dict[str, list[ToolFinished | None]]:
    """Each line that a journaled call was to write → the results of those calls."""
    asked: dict[str, list[ToolFinished | None]] = {}
    for journal in evidence.journals.values():
        results = {entry.tool_use_id: entry for _, entry in journal if isinstance(entry, ToolFinished)}
        for _, entry in journal:
            for block in entry.content if isinstance(entry, Assistant) else ():
                command = block.get("input", {}).get("command", "") if block.get("type") == "tool_use" else ""
                if effect := _EFFECT.match(command):
                    asked.setdefault(effect[1], []).append(results.get(block["id"]))
    return asked


def _check_effects(evidence: Evidence) -> Iterator[str]:
    asked, lines = _asked_effects(evidence), Counter(evidence.effects)
    for line, results in asked.items():
        # An interrupted call may have taken effect or not; one that answered has, and none has twice.
        sure = sum(result is not None and not result.is_error for result in results)
        if not sure <= lines[line] <= len(results):
            told = [result and (result.is_error, result.text[:60]) for result in results]
            yield f"the effect {line} is there {lines[line]} times after {len(results)} calls with the results {told}"
    for line in lines.keys() - asked.keys():
        yield f"the effect {line!r} is there and no journaled call asked for it"
