"""A program's desk: its calls, its notes and its clock, the only way out of it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from swarm.agent.entries import Advanced, Note, ToolFinished
from swarm.core.errors import ConfigurationError
from swarm.core.plain import clean_text, find_unfit
from swarm.core.records import Limits
from swarm.models import Block

_NOT_CONTENT = ("description", "timeout_seconds")
"""Parts of a call's input that do not change its result, so an edited program may change them."""


MOST_CALL_CHARACTERS = 1_000_000
"""Most of one call's input, as JSON."""
MOST_CALLS_CHARACTERS = 16_000_000
"""Most of all calls between two waits, which are one entry."""
MOST_NOTES = 1_000
"""Most notes between two waits. Further ones are left out."""
MOST_VALUE_CHARACTERS = 4_000_000
"""Most of a program's value, as JSON."""
_MOST_ERROR_CHARACTERS = 20_000
PHASE_CHARACTERS = 80


class Allowance(NamedTuple):
    """A part of the job's money for some agents."""

    name: str
    usd: float


class CallMarks(NamedTuple):
    """Marks of a call beside its content, which do not change its result."""

    phase: str = ""
    """The phase that it belongs to; empty: the current one."""
    allowance: Allowance | None = None
    """The money that an agent and all below it spend at most, with others that have it."""
    merge: bool = True
    """Whether an agent's own copy is merged with its result."""


UNMARKED = CallMarks()


class ProgramEnd(NamedTuple):
    """The end of a program: its value, as JSON data, or its error."""

    value: Any = None
    error: str = ""


def end_with(value: Any) -> ProgramEnd:
    """Return a program's end with this value, JSON data; an error if it is too large to be kept."""
    size = len(json.dumps(value, ensure_ascii=False))
    if size > MOST_VALUE_CHARACTERS:
        return fail_with(f"the value has {size:,} characters; a workflow can return at most {MOST_VALUE_CHARACTERS:,}")
    return fail_with(f"the value cannot be kept: {fault}") if (fault := find_unfit(value)) else ProgramEnd(value)


def fail_with(error: str) -> ProgramEnd:
    """Return a program's end with an error, whose beginning is kept."""
    return ProgramEnd(error=error[:_MOST_ERROR_CHARACTERS] or "it failed, and does not say why")


@dataclass
class Desk:
    """A program's calls and notes since its last entry, with the time and the use. Times are Unix seconds, from the journal."""

    seed: str
    """The agent's id: random numbers and ids of the program derive from it."""
    limits: Limits = field(default_factory=Limits)
    now: float = 0.0
    spent_usd: float = 0.0
    spent_tokens: int = 0
    calls: list[Block] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    proven: bool = False
    """The program repeats its earlier calls, of which none was refused."""
    allowances: dict[str, float] = field(default_factory=dict)
    """Dollars of each allowance that the program has given, by name."""
    used: dict[str, float] = field(default_factory=dict)
    """Dollars that agents have used of each allowance."""
    phase: str = ""
    """The current phase."""
    progress: str = ""
    closed: bool = False
    """The segment has ended: clean-up code of the program asks for nothing."""
    _occurrences: Counter[str] = field(default_factory=Counter)
    _size: int = 0
    """Characters of the calls since the last entry."""

    def ask(self, tool: str, given: dict[str, Any], marks: CallMarks = UNMARKED) -> str:
        """Ask for a call, and return its id: the hash of its content, and its number among equal ones.

        Raises `ConfigurationError` for one that is too large.
        """
        if self.closed:
            raise RuntimeError("the workflow is not running")
        content = {name: value for name, value in given.items() if name not in _NOT_CONTENT}
        text = json.dumps([tool, content], sort_keys=True)
        self._size += len(text)
        if len(text) > MOST_CALL_CHARACTERS or self._size > MOST_CALLS_CHARACTERS:
            raise ConfigurationError(
                f"a call of {tool} has {len(text):,} characters; one can have at most {MOST_CALL_CHARACTERS:,}, "
                f"and all between two waits {MOST_CALLS_CHARACTERS:,}"
            )
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        call_id = name_call(key, self._occurrences[key])
        self._occurrences[key] += 1
        call: Block = {"type": "tool_use", "id": call_id, "name": tool, "input": given}
        if phase := clean_text(marks.phase or self.phase):
            call["phase"] = phase[:PHASE_CHARACTERS]
        if marks.allowance is not None:
            call["allowance"] = self.allow(marks.allowance)
        if not marks.merge:
            call["merge"] = False
        self.calls.append(call)
        return call_id

    def allow(self, allowance: Allowance) -> dict[str, Any]:
        """Note an allowance, and return it as data. Raises `ValueError` for one that no agent can have."""
        name, usd = allowance
        if not re.fullmatch(r"[\w.-]{1,40}", name) or not 0 < usd < math.inf:
            raise ValueError(
                f"an allowance has a name of letters, digits, `_`, `.` and `-`, and dollars, not {name!r}, {usd}"
            )
        if self.allowances.setdefault(name, usd) != usd:
            raise ValueError(f"the allowance {name} has ${self.allowances[name]:g}, not ${usd:g}")
        return {"name": name, "usd": usd}

    def left_usd(self, name: str) -> float:
        """Return the rest of an allowance as of the last entry. Raises `KeyError`."""
        return max(0.0, self.allowances[name] - self.used.get(name, 0.0))

    def drop(self, call_id: str) -> None:
        """Give up a call: it is stopped if it runs, and not begun if it does not."""
        if not self.closed:
            self.dropped.append(call_id)

    def note(self, kind: Literal["phase", "log", "progress"], text: str) -> None:
        """Tell people something."""
        if kind == "phase":
            self.phase, self.progress = text[:PHASE_CHARACTERS], ""
        elif kind == "progress":
            self.progress = text[:PHASE_CHARACTERS]
        if not self.closed and len(self.notes) < MOST_NOTES:
            self.notes.append(Note(kind=kind, text=clean_text(text[:2_000])))

    def read(self, entry: Advanced | ToolFinished) -> None:
        """Read the time and the use at this entry."""
        # Clocks of hosts differ; time never goes back.
        self.now = max(self.now, entry.at)
        if isinstance(entry, Advanced):
            self.spent_usd, self.spent_tokens = entry.spent_usd, entry.spent_tokens
            self.used = entry.allowances or self.used
            self.calls, self.dropped, self.notes, self._size = [], [], [], 0


def name_call(key: str, occurrence: int) -> str:
    """Return the id of a call: its content's key, and its number among equal calls."""
    return f"{key}.{occurrence}"


class RunningProgram(Protocol):
    """One front end's running program, over its desk."""

    ended: ProgramEnd | None
    """Set once it has ended."""
    is_light: bool
    """A light program has no process of its own, and can be kept for the next segment."""

    def start(self) -> None:
        """Run from the beginning until it waits."""

    def tick(self) -> None:
        """Continue what waited for the desk's time."""

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give it a call's result, and continue until it waits."""

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""

    @property
    def place(self) -> str:
        """The line of its source that it waits at; empty if unknown."""

    def close(self) -> None:
        """Drop it. Its clean-up code can ask for nothing."""
