"""`swarm event`, and what the commands show of an agent that waits for one.

Tests of swarm/cli/messages.py.
"""

from __future__ import annotations

from tests.e2e.cli_world import World
from tests.waiting import wait_for

SCENARIO = """
name: events
rules:
  - when: {turn: 0}
    reply: {tools: [{name: WaitFor, input: {event: build/17}}]}
  - reply: {text: "END {last_result}"}
"""


def test_an_event_is_told_once_and_whoever_waits_goes_on(stack: World) -> None:
    scenario = stack.workspace / "events.yaml"
    scenario.write_text(SCENARIO)
    running = stack.start(
        "run", "--rehearse", str(scenario), "-w", str(stack.workspace), "wait for the build", prepared=True
    )
    [question] = wait_for("it waits", lambda: stack.read_json("questions", "--json"))
    assert (question["kind"], question["title"], question["state"]) == ("event", "build/17", "open")
    shown = stack.run("questions", question["question_id"]).stdout.decode()
    assert "waits for an event: build/17" in shown and "swarm event build/17 DATA" in shown
    refused = stack.run("answer", question["question_id"], "passed")
    assert refused.returncode == 2 and b"swarm event build/17" in refused.stderr
    assert "waiting for the event build/17" in stack.run("tree", question["job_id"]).stdout.decode()

    told = stack.run("event", "build/17", "-", stdin=b"passed & <tested>")
    assert told.returncode == 0 and b"reported build/17: 1 agent waited for it; it is kept for 1d" in told.stdout
    printed, _ = running.communicate(timeout=30)
    assert b"passed &amp; &lt;tested&gt;" in printed

    again = stack.run("event", "build/17", "failed")
    assert again.returncode == 1 and b"was reported at" in again.stderr and b"passed & <tested>" in again.stderr
    wrong = stack.run("event", "build 17")
    assert wrong.returncode != 0 and b"without spaces" in wrong.stderr
