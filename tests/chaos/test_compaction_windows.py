"""The process dies around the summary of a conversation: at worst it is asked for again, and nothing is lost or said twice.

Tests of swarm/agent/cut.py, swarm/capabilities/context/compaction.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swarm.agent.cut import SUMMARIZE
from swarm.agent.entries import Compacted
from swarm.agent.history import fold
from swarm.core.ids import root_agent_id
from tests.chaos.crashing_worker import Order
from tests.chaos.test_crash_windows import Line

READING = """
name: reading
rules:
  - when: {turn: '0-9'}
    reply: {thinking: 'thinking of {turn}', tools: [{name: Read, input: {file_path: page.txt}}]}
  - reply: {text: all read}
"""


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line()
    (line.fleet.workspace / "page.txt").write_text("a line of the page\n" * 500)
    yield line
    line.fleet.close()


WINDOWS = [
    ("the summary has come, nothing is written", Order("append", "before", kind="compacted"), 1),
    ("the same, the whole worker dies", Order("append", "before", kind="compacted", whole=True), 1),
    ("the summary is written", Order("append", "after", kind="compacted"), 0),
    ("it is about to be asked for, as a message", Order("complete", "before", prompt=SUMMARIZE), 0),
    ("it has come, as a message", Order("complete", "after", prompt=SUMMARIZE), 1),
]


@pytest.mark.parametrize(("name", "order", "again"), WINDOWS, ids=lambda value: value if isinstance(value, str) else "")
def test_dying_around_a_summary_costs_at_most_the_summary(line: Line, name: str, order: Order, again: int) -> None:
    line.man(SWARM_COMPACT_TOKENS="12000")
    blocks = order.prompt is None
    server = line.fleet.rehearse(READING if blocks else READING.replace("rules:", "summarizes: false\nrules:"))
    [done] = line.order(order)
    job = line.fleet.submit("Read the page.", server, max_tokens=2_000_000)
    left = line.see_through(job)
    assert done.exists(), "it died there"
    agent_id, store = root_agent_id(job.id), line.fleet.swarm.store
    entries = list(store.journals.read(agent_id))
    cuts = [entry for entry in entries if isinstance(entry, Compacted)]
    assert cuts and job.view().text == "all read"
    assert {cut.form for cut in cuts} == {"block" if blocks else "text"}
    assert int(server.stats()["requests"]) == int(left.record["turns"]) + len(cuts) + again
    assert set(server.stats()["by_status"]) == {"200"}, "the server, which looks closely, has refused nothing"
    assert store.journals.history(agent_id) == fold(agent_id, entries)
    view = job.view()
    assert view.usage.total_tokens == sum(fold(agent_id, entries).usage.model_dump().values())
