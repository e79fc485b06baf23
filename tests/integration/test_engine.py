"""The engine end to end: real Redis, real workers, the real SDK over HTTP; only the model's words are rehearsed.

Tests of swarm/client/jobs.py, swarm/client/preparation.py, swarm/client/submission.py, swarm/client/swarm.py,
swarm/core/ids.py, swarm/runtime/children.py, swarm/runtime/commands.py, swarm/runtime/request_prefix.py,
swarm/runtime/loop.py, swarm/runtime/segment.py, tasks/publish.py, swarm/runtime/parts.py, swarm/client/prepared.py.
"""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from swarm.agent.entries import Assistant, Spawned
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet
from tests.waiting import wait_for


def test_agents_also_run_in_a_thread_pool(fleet: Fleet) -> None:
    fleet.start_worker(4, pool="threads")
    view = fleet.submit("TREE depth=1 fanout=3 steps=2", fleet.rehearse()).wait(60)
    assert (view.state, view.text) == ("completed", "DONE 4")


def test_a_tree_deeper_and_wider_than_the_pool_completes(fleet: Fleet) -> None:
    fleet.start_worker(1)
    job = fleet.submit("TREE depth=3 fanout=3 steps=1", fleet.rehearse())
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("completed", "DONE 40", 40)
    agents = job.agents()
    assert sum(agent.usage.total_tokens for agent in agents) == view.usage.total_tokens == agents[0].subtree_tokens
    assert sum(agent.turns for agent in agents) == view.turns
    assert max(agent.depth for agent in agents) == 3


def test_at_the_nesting_limit_the_tool_is_gone_and_the_runtime_refuses(at_work: Fleet) -> None:
    server = at_work.rehearse()
    job = at_work.submit("TREE depth=3 fanout=2 steps=1", server, max_depth=1)
    view = job.wait(60)
    # The leaves (depth 1) are told to spawn by their script, have no tool for it, and answer for themselves alone.
    assert view.state == "completed" and view.agents == 3
    leaf = job.agents()[1]
    started, *rest = at_work.swarm.journal(leaf.id)
    assert "Agent" not in {tool["name"] for tool in started.tools}  # type: ignore[union-attr]
    assert not any(isinstance(entry, Spawned) for entry in rest)
    refused = [entry for entry in rest if entry.kind == "tool_finished" and entry.is_error]
    assert refused and "no tool 'Agent'" in refused[0].text  # type: ignore[union-attr]


def test_beyond_the_limit_of_agents_the_first_ones_start_and_the_others_are_refused(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=1 fanout=5 steps=1", at_work.rehearse(), max_agents=4)
    view = job.wait(60)
    assert (view.state, view.agents, view.text) == ("completed", 4, "DONE 4")


def test_running_agents_are_capped_by_queueing(at_work: Fleet) -> None:
    server = at_work.rehearse(latency_seconds=0.05)
    view = at_work.submit("TREE depth=2 fanout=3 steps=2", server, max_running=2).wait(60)
    assert (view.state, view.text) == ("completed", "DONE 13")
    assert server.stats()["peak_in_flight"] <= 2


def test_cancelling_ends_the_subtree_at_once_and_never_the_parent(at_work: Fleet) -> None:
    server = at_work.rehearse(latency_seconds=0.4)
    job = at_work.submit("TREE depth=2 fanout=2 steps=50", server)
    wait_for("the grandchildren run", lambda: sum(a.depth == 2 and a.turns > 0 for a in job.agents()) >= 3)
    child = next(agent for agent in job.agents() if agent.depth == 1)
    at_work.swarm.cancel(child.id)
    below = [agent for agent in job.agents() if agent.parent_id == child.id]
    assert at_work.swarm.agent(child.id).state == "cancelled" and {agent.state for agent in below} == {"cancelled"}
    assert at_work.swarm.agent(job.view().root_id).state == "parked"
    turns = {agent.id: agent.turns for agent in below}
    wait_for("somebody else goes on", lambda: any(a.turns > 12 for a in job.agents() if a.id not in turns))
    assert {agent.id: agent.turns for agent in job.agents() if agent.id in turns} == turns
    job.cancel()
    assert job.wait(10).state == "cancelled"


def test_cancel_kills_a_running_shell_with_all_its_processes(at_work: Fleet) -> None:
    marker = f"86{os.getpid()}"
    server = at_work.rehearse(
        f"""
name: sleeper
rules:
  - when: {{turn: 0}}
    reply: {{tools: [{{name: Bash, input: {{command: "sleep {marker} & sleep {marker}"}}}}]}}
"""
    )
    job = at_work.submit("sleep", server)

    def sleepers() -> list[psutil.Process]:
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", marker]]

    wait_for("the shell runs", lambda: len(sleepers()) == 2)
    job.cancel()
    wait_for("its processes are gone", lambda: not sleepers(), 5)
    assert job.view().state == "cancelled"


def test_a_reply_is_stored_while_the_read_that_it_asks_for_is_slow(at_work: Fleet) -> None:
    (at_work.workspace / ".gitignore").write_text("*.log\n")
    with (at_work.workspace / "huge.log").open("wb") as file:
        file.write(b"line\n" * 100_000)
        file.truncate(1 << 38)
    server = at_work.rehearse(
        """
name: slow
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Read, input: {file_path: huge.log, offset: 200000}}]}}
  - {reply: {text: DONE}}
"""
    )
    job, journals = at_work.submit("Read it.", server), at_work.swarm.store.journals
    try:
        agent = root_agent_id(job.id)
        wait_for("its reply", lambda: isinstance(journals.last_entry(agent), Assistant), seconds=20)
        assert job.view().turns == 1
    finally:
        job.cancel()
    assert job.wait(30).state == "cancelled"


def test_a_forged_payload_is_refused_and_the_worker_lives_on(fleet: Fleet) -> None:
    worker = fleet.start_worker(1)
    from celery import Celery

    from swarm.store.connection import broker_url

    stranger = Celery(broker=broker_url(fleet.url))
    agent_id = root_agent_id("job-0123456789abcdef")
    good = {"v": 1, "agent": agent_id, "job": "job-0123456789abcdef", "parent": None, "depth": 0, "max_depth": 2}
    for payload in (
        "hello",
        {**good, "depth": -1, "definition": "x"},
        {**good, "definition": "x"},
    ):
        stranger.send_task("swarm.agent", args=(payload,), task_id=agent_id, queue="swarm")
    stranger.close()
    wait_for("all three are refused", lambda: worker.text().count("PayloadRefused(") >= 3)
    for reason in ("not an object", "'depth'", "no such agent"):
        assert reason in worker.text()
    assert fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse()).wait(30).state == "completed"


def test_a_message_that_contradicts_the_record_is_refused(fleet: Fleet) -> None:
    server = fleet.rehearse()
    job = fleet.submit("TREE depth=1 fanout=2 steps=1", server, max_depth=1)
    from celery import Celery

    from swarm.store.connection import broker_url

    stranger = Celery(broker=broker_url(fleet.url))
    root = job.view().root_id
    forged = {
        "v": 1,
        "agent": root,
        "job": job.id,
        "parent": None,
        "depth": 0,
        "max_depth": 60,
        "definition": "general-purpose",
    }
    stranger.send_task("swarm.agent", args=(forged,), task_id=root, queue="swarm", priority=0)
    stranger.close()
    worker = fleet.start_worker(1)
    assert job.wait(30).state == "completed"
    assert "max_depth is 60 in the message but 1 in the record" in worker.text()


def test_a_permanent_error_of_the_model_fails_the_job_at_once_with_the_reason(at_work: Fleet) -> None:
    server = at_work.rehearse("name: broke\nfaults: [{kind: spend_limit}]\nrules: [{reply: {text: hi}}]\n")
    view = at_work.submit("hello", server).wait(20)
    assert view.state == "failed" and "spend" in view.reason.lower()


@pytest.mark.parametrize("kind", ["429", "529", "500", "cut", "stream_error"])
def test_a_passing_fault_of_the_model_costs_time_and_nothing_else(at_work: Fleet, kind: str) -> None:
    wait = ", retry_after: 1" if kind == "429" else ""
    server = at_work.rehearse(
        f"name: faulty\nfaults: [{{kind: {kind}, times: 2{wait}}}]\nrules: [{{reply: {{text: fine}}}}]\n"
    )
    view = at_work.submit("hello", server).wait(40)
    assert (view.state, view.text, view.turns) == ("completed", "fine", 1)


def test_a_long_wait_for_the_model_gives_the_process_back(fleet: Fleet) -> None:
    fleet.start_worker(1)
    server = fleet.rehearse(
        "name: limited\nfaults: [{kind: 429, times: 1, retry_after: 7}]\nrules: [{reply: {text: fine}}]\n"
    )
    job = fleet.submit("hello", server)
    fleet.wait_state(job.view().root_id, "parked")
    other = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse()).wait(6)
    assert other.state == "completed", "the only process was free for others"
    assert job.wait(30).text == "fine"


def test_sigterm_hands_the_agents_over_at_the_next_turn_and_another_worker_goes_on(fleet: Fleet) -> None:
    first = fleet.start_worker(2)
    job = fleet.submit("TREE depth=0 fanout=0 steps=12", fleet.rehearse(latency_seconds=0.25), max_turns=40)
    root = job.view().root_id
    wait_for("it has lived a little", lambda: fleet.swarm.agent(root).turns >= 3)
    assert first.stop(signal.SIGTERM, 10) == 0
    before = fleet.swarm.agent(root)
    assert before.state == "queued" and before.turns < 12
    fleet.start_worker(2)
    assert job.wait(30).text == "DONE 1"
    assert fleet.swarm.agent(root).deaths == 0, "a deploy is no death"


def test_token_and_money_limits_hold_and_the_work_is_not_lost(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=0 fanout=0 steps=500", at_work.rehearse(), max_turns=1000, max_tokens=60_000)
    view = job.wait(60)
    assert view.state == "completed" and "limit of tokens" in view.reason
    assert view.usage.total_tokens <= 60_000


def test_the_time_limit_of_a_job_ends_it_with_last_words(at_work: Fleet) -> None:
    server = at_work.rehearse(latency_seconds=0.2)
    view = at_work.submit("TREE depth=0 fanout=0 steps=500", server, max_turns=1000, timeout_seconds=2).wait(30)
    assert view.state == "timed_out" and "limit of time" in view.reason


def test_a_missing_workspace_fails_the_job_naming_the_host_and_it_goes_on_once_it_is_there(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    fleet.workspace.rmdir()
    worker = fleet.start_worker(1)
    view = job.wait(20)
    assert view.state == "failed" and "does not exist on the worker's host" in view.reason
    fleet.workspace.mkdir()
    job.send("root", "now it is there")
    wait_for("it goes on to its end", lambda: job.view().state == "completed")
    assert "agent.unreadable" not in worker.text()
