"""Bring a program to the end of its journal, and compare its calls with those in it."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.agent.entries import Advanced, ToolFinished
from swarm.core.errors import WorkflowChanged
from swarm.models import Block
from swarm.workflows.desk import Desk, RunningProgram


class Replay:
    """A program and its place in the journal, from which it only ever continues. Another process begins again."""

    def __init__(self, program: RunningProgram, desk: Desk) -> None:
        self.program, self.desk = program, desk
        self._at = 0
        self._last: Advanced | ToolFinished | None = None

    def fits(self, lived: Sequence[Advanced | ToolFinished]) -> bool:
        """Return whether the program has followed a beginning of this journal, and can follow the rest."""
        return 0 < self._at <= len(lived) and lived[self._at - 1] == self._last

    def follow(self, lived: Sequence[Advanced | ToolFinished]) -> None:
        """Tell the program the entries that it does not know. Raises `WorkflowChanged` if it asks for something else than before."""
        # A process that journaled an `Advanced` had followed all before it.
        proven = max((at for at, entry in enumerate(lived) if isinstance(entry, Advanced)), default=0)
        while self._at < len(lived):
            entry = lived[self._at]
            self.desk.proven = self._at < proven
            if self._at and isinstance(entry, Advanced):
                self._compare(entry)
            self.desk.read(entry)
            self._at, self._last = self._at + 1, entry
            if self.program.ended is not None:
                continue
            if self._at == 1:
                self.program.start()
            elif isinstance(entry, Advanced):
                self.program.tick()
            else:
                self.program.settle(entry.tool_use_id, entry.text, failed=entry.is_error)

    @property
    def has_news(self) -> bool:
        """Whether the program has asked for or said something that is not in the journal."""
        return bool(self.desk.calls or self.desk.dropped or self.desk.notes)

    def _compare(self, entry: Advanced) -> None:
        for then, now in ((entry.calls, self.desk.calls), (_named(entry.dropped), _named(self.desk.dropped))):
            for number in range(max(len(then), len(now))):
                before, after = then[number : number + 1], now[number : number + 1]
                if [call["id"] for call in before] != [call["id"] for call in after]:
                    ended = self.program.ended
                    told = f"its end: {ended.error}" if ended is not None and ended.error else _words(after)
                    raise WorkflowChanged(_words(before), told)


def _named(ids: Sequence[str]) -> list[Block]:
    return [{"id": one, "name": "giving up", "input": one} for one in ids]


def _words(calls: Sequence[Block]) -> str:
    return "".join(f"{call['name']} {str(call['input'])[:160]}" for call in calls) or "nothing"
