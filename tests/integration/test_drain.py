"""Workers that are told to leave: nothing is done twice, nobody counts as dead, and they are gone soon after their last call.

Tests of tasks/worker.py.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from billiard import pool

from swarm import Job
from swarm.tasks.worker import LAST_WAIT_SECONDS, bound_last_wait
from tests.fleet import Fleet
from tests.waiting import wait_for

GRACE_SECONDS = 3.0
"""How long a worker may stay beyond the calls that are under way."""


def _deaths(fleet: Fleet, job: Job) -> int:
    records = [fleet.swarm.store.keyspace.client.hget(f"swarm:agent:{agent.id}", "deaths") for agent in job.agents()]
    return sum(int(deaths or 0) for deaths in records)


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _roll(fleet: Fleet, call_seconds: float, agents: int) -> None:
    """Replace three workers, one after the other, each while calls that outlast the lease are under way on it."""
    log = fleet.workspace / "log"
    command = f"echo began >> log; sleep {call_seconds}; echo ended >> log"
    server = fleet.rehearse(
        f"""
name: slow
rules:
  - when: {{turn: 0}}
    reply: {{latency_seconds: {call_seconds}, tools: [{{name: Bash, input: {{command: "{command}"}}}}]}}
  - when: {{turn: "1+"}}
    reply: {{text: "DONE", latency_seconds: {call_seconds}}}
"""
    )
    for _ in range(3):
        fleet.start_worker(agents)
    jobs = [fleet.submit("x", server) for _ in range(agents)]
    wait_for("the calls are under way", lambda: server.stats()["in_flight"] == agents)
    for worker in list(fleet.workers):
        fleet.start_worker(agents)
        assert worker.stop(signal.SIGTERM, call_seconds + GRACE_SECONDS) == 0
    for job in jobs:
        view = job.wait(10 * call_seconds + 60)
        assert (view.state, view.text, view.turns, _deaths(fleet, job)) == ("completed", "DONE", 2, 0)
    assert server.stats()["requests"] == 2 * agents, "no call of the model was made twice"
    assert sorted(_lines(log)) == ["began"] * agents + ["ended"] * agents


@pytest.mark.long
def test_replacing_every_worker_while_calls_outlast_the_lease_repeats_nothing_and_counts_no_death(fleet: Fleet) -> None:
    _roll(fleet, 6.0, 4)


def test_a_pool_process_waits_little_for_a_main_process_that_will_never_have_counted_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(pool, "GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT", 300)
    monkeypatch.setattr(pool.time, "sleep", waits.append)
    bound_last_wait()
    # Two messages were answered, and the main process has forgotten one of them with its last connection.
    assert not pool.Worker._ensure_messages_consumed(
        SimpleNamespace(on_ready_counter=SimpleNamespace(value=1)), completed=2
    )
    assert 0 < sum(waits) <= LAST_WAIT_SECONDS + 0.01


@pytest.mark.long
def test_replacing_every_worker_while_calls_of_40_seconds_are_under_way(fleet: Fleet) -> None:
    _roll(fleet, 40.0, 4)


def test_a_cancel_reaches_an_agent_on_a_worker_that_is_leaving(fleet: Fleet) -> None:
    worker = fleet.start_worker(1)
    log = fleet.workspace / "log"
    job = fleet.submit(
        "x",
        fleet.rehearse(
            """
name: counting
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Bash, input: {command: 'for i in $(seq 1 40); do echo $i >> log; sleep 1; done'}}]}}
  - reply: {text: "x"}
"""
        ),
    )
    wait_for("the command runs", lambda: _lines(log))
    client = fleet.swarm.store.keyspace.client
    assert client.pubsub_channels() or client.pubsub_numpat()
    worker.process.send_signal(signal.SIGTERM)
    wait_for("nobody listens to commands any more", lambda: not client.pubsub_channels() + [0] * client.pubsub_numpat())
    job.cancel()
    assert worker.process.wait(10) == 0
    assert len(_lines(log)) < 20


def test_a_leaving_worker_hands_over_between_the_calls_of_one_reply(fleet: Fleet) -> None:
    first = fleet.start_worker(1)
    log = fleet.workspace / "log"
    commands = [f"echo {number} >> log; sleep 2" for number in range(6)]
    tools = ", ".join(f"{{name: Bash, input: {{command: '{command}'}}}}" for command in commands)
    server = fleet.rehearse(
        f"name: many\nrules:\n  - {{when: {{turn: 0}}, reply: {{tools: [{tools}]}}}}\n  - reply: {{text: DONE}}\n"
    )
    job = fleet.submit("x", server)
    wait_for("the first call is under way", lambda: _lines(log))
    first.stop(signal.SIGTERM, 2.0 + GRACE_SECONDS)
    assert len(_lines(log)) < 3
    fleet.start_worker(1)
    assert job.wait(40).text == "DONE"
    assert _lines(log) == [str(number) for number in range(6)]


@pytest.mark.parametrize("workers", [3, pytest.param(10, marks=pytest.mark.long)])
def test_all_workers_leave_in_time_in_the_middle_of_short_turns(fleet: Fleet, workers: int) -> None:
    """What a process tells its main process then must not be lost: the process would wait for half a minute."""
    server = fleet.rehearse(latency_seconds=0.05)
    jobs = [fleet.submit("TREE depth=2 fanout=4 steps=40", server) for _ in range(4)]
    for _ in range(workers):
        worker = fleet.start_worker(4)
        wait_for("agents run on it", lambda: "agent.running" in fleet.workers[-1].text())
        assert worker.stop(signal.SIGTERM, GRACE_SECONDS + 1.0) == 0
        assert ".broke " not in worker.text(), "its housekeeping bears that the pool ends before it"
    assert not any(_deaths(fleet, job) for job in jobs)
    for job in jobs:
        job.cancel()


@pytest.mark.long
def test_the_command_of_the_readme_survives_a_childs_death_beside_a_lost_connection(fleet: Fleet) -> None:
    worker = fleet.start_worker(4)
    job = fleet.submit("TREE depth=2 fanout=4 steps=15", fleet.rehearse(latency_seconds=0.1))
    for turns in (5, 60, 120, 180):
        wait_for("work is going on", lambda turns=turns: job.view().turns > turns)  # type: ignore[misc]
        worker.children()[0].kill()
        fleet.swarm.store.keyspace.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
    assert job.wait(120).text == "DONE 21"
    assert worker.process.poll() is None
    assert "mingle" not in worker.text()


def test_whoever_writes_to_an_agent_in_its_last_words_is_told_that_it_was_not_read(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: last
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Glob, input: {pattern: '*'}}]}}
  - {when: {turn: '1+'}, reply: {text: "my last words", latency_seconds: 4}}
"""
    )
    job = at_work.submit("x", server, max_turns=1)
    wait_for("it says its last words", lambda: job.view().turns == 1 and server.stats()["in_flight"] == 1)
    sent = job.send("root", "One more question?")
    assert job.wait(30).text == "my last words"
    [told] = job.inbox()
    assert "was not read" in told.body and told.reply_to == sent
