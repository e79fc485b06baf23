"""An agent that kills its worker again and again in the same place is failed, told to its parent, and no loop.

Tests of tasks/agent_task.py.
"""

from __future__ import annotations

import pytest

from tests.chaos.check.dump import take
from tests.chaos.check.judge import judge
from tests.chaos.crashing_worker import CrashingWorker, Order, orders_folder
from tests.fleet import Fleet
from tests.waiting import wait_for

SCENARIO = """
name: poison
rules:
  - name: the parent asks
    when: {prompt: "^begin", turn: 0}
    reply:
      tools:
        - {name: Agent, input: {description: sound work, prompt: do sound work, subagent_type: general-purpose}}
        - {name: Agent, input: {description: deadly work, prompt: take the POISON, subagent_type: general-purpose}}
  - name: the parent reports
    when: {prompt: "^begin"}
    reply: {text: "heard: {last_result}"}
  - when: {prompt: POISON, turn: 0}
    reply: {tools: [{name: LS, input: {path: "."}}]}
  - reply: {text: well done}
"""


def test_an_agent_that_kills_its_worker_five_times_is_failed_and_its_parent_told(fleet: Fleet) -> None:
    # It lives one turn; then its process dies whenever it has run the tool.
    Order("append", "before", kind="tool_finished", depth=1, always=True).give(orders_folder(fleet))
    CrashingWorker(fleet, 2)
    job = fleet.submit("begin", fleet.rehearse(SCENARIO))
    view = job.wait(60)
    root, *children = job.agents()
    poisoned = next(child for child in children if child.label.endswith("deadly work"))
    sound = next(child for child in children if child is not poisoned)
    assert (poisoned.state, poisoned.deaths) == ("failed", fleet.settings.max_deaths)
    assert poisoned.reason.startswith("killed its worker 5 times")
    assert (sound.state, sound.text, sound.deaths) == ("completed", "well done", 0), "its sibling is unharmed"
    results = [entry for entry in fleet.swarm.journal(root.id) if entry.kind == "tool_finished"]
    told = {entry.is_error: entry.text for entry in results}
    assert "killed its worker 5 times" in told[True] and "well done" in told[False]
    assert (view.state, root.deaths) == ("completed", 0)
    assert fleet.swarm.journal(poisoned.id)[-1].kind == "finished"
    assert not judge([take(fleet.swarm.store.keyspace.client, job.id)], expect_failed=1).faults


@pytest.mark.long
def test_an_agent_that_kills_whole_workers_is_failed_as_well(fleet: Fleet) -> None:
    done = Order("complete", "before", prompt="POISON", whole=True, always=True)
    done.give(orders_folder(fleet))
    job = fleet.submit("take the POISON", fleet.rehearse(SCENARIO))

    def probe() -> bool:
        if all(worker.process.poll() is not None for worker in fleet.workers):
            CrashingWorker(fleet, 1)
        return job.view().ended

    wait_for("it is failed", probe, 100)
    view = job.view()
    assert view.state == "failed" and view.reason.startswith("killed its worker 5 times")
    assert len(fleet.workers) <= fleet.settings.max_deaths + 1, "nothing loops"


def test_progress_forgives_deaths(fleet: Fleet) -> None:
    """Four deaths here and four there are no five in one place."""
    CrashingWorker(fleet, 1)
    for _ in range(4):
        Order("append", "before", kind="assistant").give(orders_folder(fleet))
        Order("append", "before", kind="tool_finished").give(orders_folder(fleet))
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    view = job.wait(60)
    assert (view.state, view.text, view.turns) == ("completed", "DONE 1", 2)
    generations = [entry.generation for entry in fleet.swarm.journal(view.root_id)]
    assert generations[-1] == 9, "it died eight times"
