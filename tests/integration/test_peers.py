"""Agents that talk: background agents, messages, resuming, waiting, forks; real workers, real Redis, real HTTP."""

from __future__ import annotations

from tests.fleet import Fleet, wait_for


def _conversation(fleet: Fleet, agent_id: str) -> str:
    return "\n".join(entry.model_dump_json() for entry in fleet.swarm.journal(agent_id))


def test_a_background_agent_reports_by_itself_and_its_parent_ends_after_it(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse(
        """
name: background
rules:
  - when: {prompt: '^side work', turn: 0}
    reply: {text: 'found <it> & more', latency_seconds: 0.5}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: side work, prompt: 'side work', run_in_background: true, name: helper}}]}
  - when: {last_result: 'Started in the background'}
    reply: {text: I have nothing to do but wait.}
  - when: {last_text: '<task-notification>[\\s\\S]*<result>(?P<what>.*)</result>'}
    reply: {text: 'it said {what}'}
"""
    )
    job = fleet.submit("go", server)
    assert job.wait(30).text == "it said found &lt;it&gt; &amp; more"
    root, child = job.agents()
    story = _conversation(fleet, root.id)
    assert story.count("<task-notification>") == 1
    assert child.state == "completed" and child.label.endswith("side work")


def test_a_message_to_an_agent_that_has_finished_resumes_it_with_all_it_knows(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse(
        """
name: resume
rules:
  - when: {prompt: '^remember', turn: 0}
    reply: {text: noted 42}
  - when: {prompt: '^remember', turn: 1, last_text: 'what was it'}
    reply: {text: it was 42}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: memory, prompt: 'remember 42', name: memory}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Agent, input: {description: ask again, prompt: 'what was it?', agent_id: memory}}]}
  - when: {last_result: 'it was (?P<n>\\d+)'}
    reply: {text: 'remembered {n}'}
"""
    )
    job = fleet.submit("go", server)
    assert job.wait(30).text == "remembered 42"
    root, child = job.agents()
    assert child.turns == 2 and child.state == "completed"
    assert root.subtree_tokens == sum(agent.usage.total_tokens for agent in job.agents())
    assert job.view().usage.total_tokens == root.subtree_tokens


def test_waiting_for_background_agents_parks_and_all_results_arrive_once(fleet: Fleet) -> None:
    fleet.start_worker(2)
    calls = ", ".join(
        f"{{name: Agent, input: {{description: part {n}, prompt: 'part {n}', run_in_background: true, name: p{n}}}}}"
        for n in range(5)
    )
    server = fleet.rehearse(
        f"""
name: waiting
rules:
  - when: {{prompt: '^part (?P<n>\\d)', turn: 0}}
    reply: {{text: 'answer {{n}}', latency_seconds: [0.1, 0.8]}}
  - when: {{turn: 0}}
    reply: {{tools: [{calls}]}}
  - when: {{turn: 1}}
    reply: {{tools: [{{name: WaitAgents, input: {{timeout_seconds: 60}}}}]}}
  - reply: {{text: "{{last_text}}"}}
"""
    )
    job = fleet.submit("go", server)
    text = job.wait(40).text
    assert sorted(n for n in "01234" if text.count(f"<result>answer {n}</result>") == 1) == list("01234"), text
    root = job.agents()[0]
    story = _conversation(fleet, root.id)
    assert '"children":[' in story and "None of them is at work any more" in story


def test_agents_write_to_each_other_by_name_and_an_unknown_receiver_is_an_error(fleet: Fleet) -> None:
    fleet.start_worker(3)
    server = fleet.rehearse(
        """
name: talk
rules:
  - when: {prompt: '^ask bob', turn: 0}
    reply: {tools: [{name: SendMessage, input: {to: bob, message: 'what <is> it?'}}, {name: SendMessage, input: {to: nobody, message: x}}]}
  - when: {prompt: '^ask bob', turn: 1}
    reply: {tools: [{name: Bash, input: {command: "sleep 1"}}]}
  - when: {prompt: '^ask bob', last_text: 'from="bob"[\\s\\S]*seven'}
    reply: {text: bob said seven}
  - when: {prompt: '^ask bob'}
    reply: {tools: [{name: Bash, input: {command: "sleep 0.3"}}]}
  - when: {prompt: '^be bob', last_text: 'from="alice"[\\s\\S]*what &lt;is&gt; it'}
    reply: {tools: [{name: SendMessage, input: {to: alice, message: seven}}]}
  - when: {prompt: '^be bob', last_result: Delivered}
    reply: {text: told her}
  - when: {prompt: '^be bob'}
    reply: {tools: [{name: Bash, input: {command: "sleep 0.3"}}]}
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: alice, prompt: 'ask bob', name: alice}},
      {name: Agent, input: {description: bob, prompt: 'be bob', name: bob}}]}
  - reply: {text: "{last_result}"}
"""
    )
    job = fleet.submit("go", server)
    text = job.wait(40).text
    assert "bob said seven" in text and "told her" in text
    alice = next(agent for agent in job.agents() if agent.label.endswith("alice"))
    story = _conversation(fleet, alice.id)
    assert "there is no agent 'nobody' in this job" in story and "bob (" in story


def test_a_fork_begins_with_its_parents_conversation_and_reads_it_from_the_cache(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse(
        """
name: fork
rules:
  - when: {prompt: '^go', turn: 0}
    reply: {tools: [{name: Bash, input: {command: "seq 1 3000"}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: Agent, input: {description: fork one, prompt: 'you are fork one', fork: true}},
      {name: Agent, input: {description: fork two, prompt: 'you are fork two', fork: true}}]}
  - when: {turn: 2, last_text: 'you are fork (?P<n>one|two)'}
    reply: {tools: [{name: Agent, input: {description: deeper, prompt: deeper, fork: true}}]}
  - when: {turn: 3, last_result: 'forks are not forked'}
    reply: {text: 'fork was here'}
  - reply: {text: "{last_result}"}
"""
    )
    job = fleet.submit("go", server)
    text = job.wait(40).text
    assert text.count("fork was here") == 2, text
    root, *forks = job.agents()
    last = [entry for entry in fleet.swarm.journal(root.id) if entry.kind == "assistant"][1]
    for fork in forks:
        first = next(entry for entry in fleet.swarm.journal(fork.id) if entry.kind == "assistant")
        assert first.usage.cache_read_input_tokens >= 0.95 * (
            last.usage.cache_read_input_tokens + last.usage.cache_creation_input_tokens + last.usage.input_tokens
        ), (first.usage, last.usage)


def test_stopping_an_agent_reaches_down_and_never_up(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse(
        """
name: stop
rules:
  - when: {prompt: '^hang', turn: 0}
    reply: {text: never, latency_seconds: 60}
  - when: {prompt: '^middle', turn: 0}
    reply: {tools: [{name: Agent, input: {description: deep, prompt: hang, name: deep}}]}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: middle, prompt: middle, run_in_background: true, name: middle}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: "sleep 1"}}]}
  - when: {turn: 2}
    reply: {tools: [{name: ListAgents}, {name: StopAgent, input: {agent_id: middle}}, {name: StopAgent, input: {agent_id: root}}]}
  - reply: {text: "{last_text}"}
"""
    )
    job = fleet.submit("go", server)
    text = job.wait(40).text
    assert "<status>cancelled</status>" in text
    assert [agent.state for agent in job.agents()] == ["completed", "cancelled", "cancelled"]
    story = _conversation(fleet, job.view().root_id)
    assert "yourself" in story and "is stopped, and all that it had started" in story


def test_a_person_writes_to_a_job_that_is_over_and_it_goes_on(fleet: Fleet) -> None:
    fleet.start_worker(2)
    server = fleet.rehearse(
        """
name: again
rules:
  - when: {turn: 0}
    reply: {text: first answer}
  - when: {last_text: 'from="user"[\\s\\S]*and then'}
    reply: {text: second answer}
"""
    )
    job = fleet.submit("go", server)
    assert job.wait(30).text == "first answer"
    job.send("root", "and then?")
    wait_for("it goes on", lambda: job.view().text == "second answer", 30)
    assert job.wait(10).state == "completed"
    assert fleet.swarm.store.client.ttl(fleet.swarm.store.key("job", job.id)) > 0
