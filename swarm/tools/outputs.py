"""Long outputs: their beginning and end stay in the conversation, the whole is kept with the agent and read by page."""

from __future__ import annotations

from collections.abc import Iterable

from swarm.agent.entries import Entry
from swarm.agent.items import as_text
from swarm.agent.transcript import tell
from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway, ToolError
from swarm.store.store import Store
from swarm.store.values import Claim, KeptOutput, OutputBounds
from swarm.workspace import OUTPUT_PREFIX

MAX_OUTPUT_CHARACTERS = 50_000
"""How much of one result enters the conversation; the rest is kept and read by page."""
PAST = "past"
"""Under the handle `output:past` an agent reads its whole journal."""
_HEAD_SHARE = 0.4
"""The end of an output (a test summary, an error) tells more than its beginning."""
_NOTE_ROOM = 400


def tell_past(entries: Iterable[Entry]) -> str:
    """A journal as a conversation, oldest first."""
    return "\n\n".join(text for item in tell(entries) if (text := as_text(item, str, inputs=True)))


class Outputs:
    """The outputs of one agent that are too long for its conversation."""

    def __init__(self, store: Store, claim: Claim, bounds: OutputBounds, inherited: str | None = None) -> None:
        self._store, self._claim, self._bounds = store, claim, bounds
        self._inherited = inherited
        """The agent whose conversation it began with, and so the handles in it."""
        self._read: tuple[str, str | None] | None = None
        """The last key and its text: pages are read one after the other."""

    def keep(self, key: str, text: str) -> KeptOutput:
        """Keep `text` under the handle `output:KEY`, if there is room. Raises `NotOwner` or `AgentCancelled`."""
        self._read = None
        return self._store.outputs.keep(self._claim, key, text, self._bounds)

    def load(self, handle: str) -> str | None:
        """The text kept under `handle`, or None; `output:past` is the agent's whole journal. Raises `ToolError`."""
        key = handle.removeprefix(OUTPUT_PREFIX)
        if key == PAST:
            return tell_past(self._store.journals.read(self._claim.agent_id))
        if self._read is None or self._read[0] != key:
            self._read = key, self._load(key)
        return self._read[1]

    def _load(self, key: str) -> str | None:
        try:
            found = self._store.outputs.load(self._claim.agent_id, key)
            return self._store.outputs.load(self._inherited, key) if found is None and self._inherited else found
        except (ObjectMissing, ObjectsAway, ObjectRefused) as error:
            raise ToolError(f"{OUTPUT_PREFIX}{key} cannot be read now: {error}") from error


def fit(outputs: Outputs, key: str, text: str) -> str:
    """`text` itself if it is short enough; else its head and tail around a line that says how to read the rest."""
    if len(text) <= MAX_OUTPUT_CHARACTERS:
        return text
    kept = outputs.keep(key, text)
    room = MAX_OUTPUT_CHARACTERS - _NOTE_ROOM
    head_end = int(room * _HEAD_SHARE)
    tail_start = len(text) - (room - head_end)
    # Cut at line ends where one is near, so that no half line is taken for a whole one.
    head_end = _near(text.rfind("\n", head_end - 1000, head_end) + 1, head_end)
    tail_start = _near(text.find("\n", tail_start, tail_start + 1000) + 1, tail_start)
    left_out = text[head_end:tail_start]
    first_line = text.count("\n", 0, head_end) + 1
    note = (
        f"[… {len(left_out):,} of {len(text):,} characters ({left_out.count(chr(10)):,} lines) left out here."
        f"{_tell_kept(kept, f'{OUTPUT_PREFIX}{key}', first_line)} …]"
    )
    return f"{text[:head_end].rstrip(chr(10))}\n{note}\n{text[tail_start:]}"


def _tell_kept(kept: KeptOutput, handle: str, first_line: int) -> str:
    """Say how to read the whole output, or why it was not kept."""
    if kept.over == "Redis":
        return " They are lost: the fleet's memory is nearly full. Write long outputs into a file, and read that"
    if kept.over:
        whose = "you" if kept.over == "agent" else "all agents of this job"
        return f" They are lost: {whose} can keep {kept.bound / 2**20:,.0f} MiB of outputs. Write long outputs into a file, and read that"
    how = f' Read(file_path="{handle}", offset={first_line}, limit=500) pages through the whole output'
    if not kept.dropped:
        return how
    return f"{how}. No longer kept, to make room: {', '.join(OUTPUT_PREFIX + key for key in kept.dropped)}"


def _near(found: int, otherwise: int) -> int:
    return found if found > 0 else otherwise
