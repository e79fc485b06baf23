"""A coordinator that the runtime holds to its rules, with workers that really find, change and run things.

Tests of mailbox/message.py, swarm/agent/coordination, swarm/runtime/evidence.py.
"""

from __future__ import annotations

from swarm.agent.entries import Prompt, ToolFinished
from swarm.mailbox import USER
from swarm.rehearsal.demo import COORDINATED, prepare_demo
from tests.fleet import Fleet


def test_a_coordinator_that_forgets_each_rule_once_is_held_to_all_of_them(at_work: Fleet) -> None:
    demo = prepare_demo(at_work.workspace / "till")
    server = at_work.rehearse(COORDINATED)
    job = at_work.swarm.submit(demo.prompt, agent=COORDINATED, workspace=demo.workspace, base_url=server.url)
    view = job.wait(60)
    assert (view.state, view.reason) == ("completed", "")
    root, *workers = job.agents()
    assert [worker.definition for worker in workers] == ["explore", "worker", "verification"]
    journal = list(at_work.swarm.journal(root.id))
    refused = [entry.text for entry in journal if isinstance(entry, ToolFinished) and entry.is_error]
    said = ["research still runs", "since you last wrote", "'Based on the findings'", "tests is being changed by ada"]
    assert len(refused) == 4 and all(words in text for words, text in zip(said, refused, strict=True))
    assert [event.kind for event in job.follow()].count("denied") == 4
    [too_early] = [entry for entry in journal if isinstance(entry, Prompt) and entry.purpose == "coordination"]
    assert "correct the tax (till/tax.py, tests/test_tax.py)" in too_early.text
    # With a report comes what its agent really ran; the verifier had a shell that cannot write.
    built, verified = [
        entry.text for entry in journal if isinstance(entry, ToolFinished) and "Commands that" in entry.text
    ]
    assert "`python3 -m unittest -q`: exit code 0" in built and "continue it (`agent_id`)" in built
    assert "&& git diff --stat`: exit code 0" in verified and "VERDICT: PASS" in verified
    assert "20330000 10 0" in str(at_work.swarm.journal(workers[2].id))


def test_reports_that_come_by_mail_count_too_and_say_what_was_run(at_work: Fleet) -> None:
    order = "Write the word done to src/out.txt with the shell and nothing else, then report it. Somebody else looks for that word there."
    server = at_work.rehearse(
        f"""
name: in the background
rules:
  - {{when: {{definition: worker, turn: 0}}, reply: {{tools: [{{name: Bash, input: {{command: mkdir src; echo done > src/out.txt}}}}]}}}}
  - {{when: {{definition: worker}}, reply: {{text: written}}}}
  - when: {{turn: 0}}
    reply:
      tools:
        - name: Agent
          input: {{phase: implementation, description: write, subagent_type: worker, run_in_background: true,
                  files: [src], done_when: it is there, prompt: {order!r}}}
  - {{when: {{last_text: cannot be the end}}, reply: {{text: I insist}}}}
  - {{reply: {{text: it is written}}}}
"""
    )
    job = at_work.swarm.submit("write", agent="coordinator", workspace=at_work.workspace, base_url=server.url)
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "I insist"), [
        (e.kind, getattr(e, "text", "")) for e in at_work.swarm.journal(view.root_id)
    ]
    assert view.reason == "not independently verified: write (src)"
    texts = [entry.text for entry in at_work.swarm.journal(view.root_id) if entry.kind == "mail"]
    assert "ran `mkdir src; echo done &gt; src/out.txt`: exit code 0" in texts[0] and USER not in texts[0]
    assert [entry.kind for entry in at_work.swarm.journal(view.root_id)].count("prompt") == 3, (
        "the task, and two refusals"
    )
