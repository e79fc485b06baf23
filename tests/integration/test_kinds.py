"""How agents run: on their parent's host, anywhere for a bounded time.

Tests of swarm/runtime/spawner.py.
"""

from __future__ import annotations

import json
import socket

from swarm.agent.entries import ToolFinished
from tests.fleet import Fleet

SCENARIO = """
name: kinds
rules:
  - {when: {prompt: '^lead$', turn: 0}, reply: {tools: [
      {name: Agent, input: {description: near, prompt: near, kind: local}},
      {name: Agent, input: {description: slow, prompt: slow, subagent_type: slow}}]}}
  - {when: {prompt: '^lead$'}, reply: {text: done}}
  - {when: {prompt: '^near$'}, reply: {text: near}}
  - {when: {prompt: '^slow$', tools_allowed: false}, reply: {text: 'this far'}}
  - {when: {prompt: '^slow$'}, reply: {tools: [{name: Agent, input: {description: sleeps, prompt: sleeps}}]}}
  - {when: {prompt: '^sleeps$', turn: 0}, reply: {tools: [{name: Bash, input: {command: 'sleep 300'}}]}}
  - {when: {prompt: '^sleeps$'}, reply: {text: done}}
"""
SLOW = "---\nname: slow\ndescription: Takes long.\nkind: remote\ntimeout_mins: 0.03\n---\nTake long.\n"


def test_a_local_agent_needs_its_parents_host_and_a_remote_one_says_its_last_words_when_its_time_is_over(
    at_work: Fleet,
) -> None:
    (at_work.workspace / ".claude/agents").mkdir(parents=True)
    (at_work.workspace / ".claude/agents/slow.md").write_text(SLOW)
    job = at_work.submit("lead", at_work.rehearse(SCENARIO))
    assert job.wait(60).state == "completed"
    lead, near, slow, sleeps = job.agents()
    assert json.loads(near.needs)["wants"] == [f"host:{socket.gethostname()}"] and near.state == "completed"
    assert (slow.state, slow.text, slow.stopped_at) == ("timed_out", "this far", "time")
    assert sleeps.state == "cancelled"
    told = [one.text for one in at_work.swarm.journal(lead.id) if isinstance(one, ToolFinished)]
    assert "timed_out" in told[1] and "this far" in told[1]
