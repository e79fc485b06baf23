"""The calls of tools that one reply makes: what only looks runs side by side, what has effects alone, noted before and after."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from swarm.agent.entries import ToolStarted
from swarm.definitions.tools import Kind
from swarm.models import Block
from swarm.runtime.carrying import Keeping
from swarm.runtime.guidance import Guidance
from swarm.runtime.segment import Segment
from swarm.runtime.toolbox import Toolbox

CONCURRENT_READS = 8


class Calls:
    """Runs the calls of one segment that may be run."""

    def __init__(self, segment: Segment, toolbox: Toolbox, guidance: Guidance, files: Keeping) -> None:
        self._journal, self._toolbox, self._guidance, self._files = segment.journal, toolbox, guidance, files

    def run(self, calls: Sequence[Block]) -> None:
        """Run them, and journal their results."""
        life = self._journal.life
        if len(calls) == 1 and life.kind_of(calls[0]) in (Kind.EFFECT, Kind.IDEMPOTENT):
            return self._run_effect(calls[0])
        if len(calls) == 1:
            results = [self._toolbox.run(calls[0])]
        else:
            with ThreadPoolExecutor(min(CONCURRENT_READS, len(calls))) as pool:
                results = list(pool.map(self._toolbox.run, calls))
        self._journal.append_results(self._guidance.follow(calls, results))
        self._files.kept()

    def _run_effect(self, call: Block) -> None:
        """Noted, run, its files kept, its result noted: whoever dies in between, the next one knows what the call may have done."""
        life = self._journal.life
        if call["id"] not in life.tools_started or call["id"] in life.waits:
            self._journal.append([ToolStarted(tool_use_id=call["id"])], activity=self._toolbox.activity(call))
        self._files.begin(call)
        result = self._files.keep(self._toolbox.run(call))
        self._journal.append_results(self._guidance.follow([call], [result]))
        self._files.kept()
