"""What records tell people: the order of siblings, what a rehearsal costs, which limit ended a job, and plans nobody could approve.

Tests of swarm/client/jobs.py.
"""

from __future__ import annotations

import pytest

from tests.fleet import Fleet

PLAN = "# A greeting\n\n1. Ask which language it is to be in.\n2. Write it into `greeting.txt`."


def test_siblings_stand_in_the_order_of_their_calls(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=1 fanout=12 steps=1", at_work.rehearse())
    job.wait(60)
    labels = [agent.label.rpartition(" ")[2] for agent in job.agents()[1:]]
    assert labels == [str(number) for number in range(12)]


def test_a_rehearsal_costs_nothing_and_says_what_it_would_have_cost(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=1 fanout=1 steps=1", at_work.rehearse())
    view = job.wait(60)
    assert job.wait(0) == view, "a job that has ended is not waited for"
    root, child = job.agents()
    assert (view.rehearsed, root.rehearsed, child.rehearsed) == (True, True, True)
    assert (view.cost_usd, root.subtree_cost_usd, child.cost_usd) == (0, 0, 0)
    assert view.reckoned_usd == pytest.approx(root.reckoned_usd + child.reckoned_usd) and child.reckoned_usd > 0
    assert root.model.startswith("claude-")


def test_a_job_stopped_at_its_limit_of_turns_says_so(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=0 fanout=0 steps=9", at_work.rehearse(), max_turns=2)
    view = job.wait(60)
    assert (view.state, view.stopped_at, job.agents()[0].stopped_at) == ("completed", "turns", "turns")


def test_a_plan_that_nobody_can_approve_is_the_answer(at_work: Fleet) -> None:
    job = at_work.swarm.submit(
        "Greet me", workspace=at_work.workspace, base_url=at_work.rehearse("ask").url, mode="plan", ask_seconds=0
    )
    view = job.wait(60)
    assert (view.state, view.text, view.turns) == ("completed", PLAN, 1)
    assert "no one could approve" in view.reason
    assert not (at_work.workspace / "greeting.txt").exists()
