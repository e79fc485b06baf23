"""Work that must pass: a real check in the agent's sandbox, a real grader; only the model's words are rehearsed.

Tests of swarm/capabilities/outcomes/step.py.
"""

from __future__ import annotations

import json
from typing import Any

from swarm import Job, Limits
from swarm.agent.entries import Assistant, Grading, ToolFinished, Verdict
from swarm.core.ids import root_agent_id
from swarm.workspace import OUTPUT_PREFIX
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

AUTHOR = """
name: author
rules:
  - when: {{definition: grader, turn: 0}}
    reply: {{tools: [{{name: Bash, input: {{command: 'cat out.txt; echo x > out.txt; echo wrote $?'}}}}]}}
  - {{when: {{definition: grader, prompt: '<answer>\\nfirst'}}, reply: {{text: {refused}}}}}
  - {{when: {{definition: grader}}, reply: {{text: {passed}}}}}
  - {{when: {{last_text: 'exited with'}}, reply: {{tools: [{{name: Write, input: {{file_path: out.txt, content: good}}}}]}}}}
  - {{when: {{last_text: 'The grader says'}}, reply: {{text: second answer}}}}
  - {{when: {{turn: 0+}}, reply: {{text: first answer}}}}
"""


def told(**verdict: Any) -> str:
    return json.dumps(json.dumps({"findings": [], "summary": "All is met.", "passed": True, **verdict}))


REFUSED = told(passed=False, summary="It is not explained.", findings=["nothing says why"])


def submit(fleet: Fleet, server: RehearsalServer, *, agent: str = "general-purpose", **given: Any) -> Job:
    limits = given.pop("limits", Limits())
    return fleet.swarm.submit(
        "write out.txt", agent=agent, workspace=fleet.workspace, base_url=server.url, limits=limits, **given
    )


def journaled(fleet: Fleet, job: Job) -> list[Any]:
    return list(fleet.swarm.journal(root_agent_id(job.id)))


def test_work_is_sent_back_until_check_and_grader_accept_it(at_work: Fleet) -> None:
    server = at_work.rehearse(AUTHOR.format(refused=REFUSED, passed=told()))
    job = submit(
        at_work, server, check="grep good out.txt", rubric="It is explained.", limits=Limits(max_depth=0, max_agents=1)
    )
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "second answer"), view.verdicts
    # Neither depth nor the number of agents forbids what the runtime itself starts.
    assert [(v.by, v.attempt, v.passed, v.exit_code) for v in view.verdicts] == [
        ("check", 1, False, 2),
        ("check", 2, True, 0),
        ("grader", 2, False, None),
        ("check", 3, True, 0),
        ("grader", 3, True, None),
    ]
    root, *graders = job.agents()
    assert root.verdicts == view.verdicts and [grader.definition for grader in graders] == ["grader", "grader"]
    assert view.usage.total_tokens == sum(agent.usage.total_tokens for agent in job.agents())
    # A grader has a shell that cannot write, and a context of its own.
    looked = [e for e in at_work.swarm.journal(graders[0].id) if isinstance(e, ToolFinished)]
    assert "good" in looked[0].text and "wrote 1" in looked[0].text
    assert (at_work.workspace / "out.txt").read_text() == "good"
    kinds = [event.kind for event in job.follow() if event.kind == "verdict"]
    assert len(kinds) == 5
    # What was refused entered the conversation, with the check's output and the grader's finding.
    texts = [entry.text for entry in journaled(at_work, job) if isinstance(entry, Verdict) and entry.text]
    assert "out.txt" in texts[0] and "- nothing says why" in texts[1]


def test_after_the_last_attempt_the_job_has_failed_with_its_work(at_work: Fleet) -> None:
    server = at_work.rehearse("name: stubborn\nrules: [{reply: {text: it is done}}]\n")
    view = submit(at_work, server, check="seq 5000; exit 3", tries=2).wait(60)
    assert (view.state, view.text) == ("failed", "it is done")
    assert view.reason == "not accepted after 2 attempts: `seq 5000; exit 3` exited with 3"
    # Of a long output the agent is given the ends; the whole is kept.
    [first, last] = [e for e in journaled(at_work, at_work.swarm.job(view.id)) if isinstance(e, Verdict)]
    assert first.report.startswith("1\n2\n") and first.report.endswith("4999\n5000") and OUTPUT_PREFIX in first.text
    assert last.text == "" and "can hand it in once more" in first.text


def test_a_check_that_takes_too_long_is_ended(at_work: Fleet) -> None:
    server = at_work.rehearse("name: stubborn\nrules: [{reply: {text: it is done}}]\n")
    view = submit(at_work, server, check="sleep 600", tries=1, check_seconds=0.3).wait(60)
    assert view.state == "failed" and view.reason.endswith("`sleep 600` did not end within 0.3 s")


def test_a_grader_without_a_verdict_is_replaced_once_and_then_the_job_has_failed(at_work: Fleet) -> None:
    server = at_work.rehearse(
        "name: mute\nrules:\n  - {when: {definition: grader}, reply: {text: hm}}\n  - {reply: {text: it is done}}\n"
    )
    job = submit(at_work, server, rubric="Good.")
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("failed", "it is done", 3)
    assert "it could not be graded" in view.reason and view.verdicts[0].void


def test_a_child_is_judged_by_what_its_definition_says_and_its_parent_is_told(at_work: Fleet) -> None:
    folder = at_work.workspace / ".swarm" / "agents"
    folder.mkdir(parents=True)
    (folder / "fixer.md").write_text(
        "---\nname: fixer\ndescription: d\ncheck: touch fixed && false\ntries: 1\n---\nFix.\n"
    )
    server = at_work.rehearse(
        """
name: parent
rules:
  - {when: {definition: fixer}, reply: {text: fixed it}}
  - {when: {turn: 0}, reply: {tools: [{name: Agent, input: {description: fix, prompt: fix, subagent_type: fixer}}]}}
  - {reply: {text: '{last_result}'}}
"""
    )
    view = submit(at_work, server, limits=Limits()).wait(60)
    assert "fixer" in view.text and ": failed" in view.text and "not accepted after 1 attempt" in view.text
    # In a mode in which the agent's own commands are asked about, a check that came with a definition is not run.
    job = submit(at_work, server, agent="fixer", mode="dontAsk")
    assert "the check could not be run" in job.wait(60).reason


def test_money_is_left_for_the_grader_when_its_author_has_used_up_the_rest(at_work: Fleet) -> None:
    server = at_work.rehearse(
        f"""
name: spender
rules:
  - {{when: {{definition: grader}}, reply: {{text: {told()}}}}}
  - {{when: {{tools_allowed: false}}, reply: {{text: what there is}}}}
  - {{reply: {{tools: [{{name: LS, input: {{}}}}], usage: {{input_tokens: 20000}}}}}}
"""
    )
    job = submit(at_work, server, rubric="Good.", limits=Limits(budget_usd=0.6))
    view = job.wait(60)
    assert (view.state, view.stopped_at, view.verdicts[-1].passed) == ("completed", "budget", True)
    assert view.reckoned_usd <= 0.6
    assert any(isinstance(entry, Grading) for entry in journaled(at_work, job))


def test_a_message_that_comes_while_work_is_graded_is_read_and_the_new_answer_judged(at_work: Fleet) -> None:
    server = at_work.rehearse(
        f"""
name: graded
rules:
  - {{when: {{definition: grader}}, reply: {{text: {told()}, latency_seconds: 1.5}}}}
  - {{when: {{last_text: also this}}, reply: {{text: that too}}}}
  - {{reply: {{text: it is done}}}}
"""
    )
    job = submit(at_work, server, rubric="Good.")
    wait_for("it is graded", lambda: len(job.agents()) == 2)
    job.send("root", "also this")
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("completed", "that too", 3)
    replies = [entry for entry in journaled(at_work, job) if isinstance(entry, Assistant)]
    assert len(replies) == 2 and [verdict.attempt for verdict in view.verdicts] == [1, 1]
