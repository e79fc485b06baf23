"""Workflows on workers: their agents are paid once whoever dies, they hold no process while they wait, and a new run reuses results.

Tests of swarm/capabilities/workflows/step.py, swarm/capabilities/workflows/worker.py, swarm/workflows/reuse.py,
swarm/client/workflows.py, swarm/cli/workflows.py, swarm/capabilities/workflows/workflow_tool.py,
swarm/capabilities/workflows/rows_tools.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from swarm import Job, Limits
from swarm.agent.entries import Parked
from swarm.cli.app import app
from swarm.cli.question_view import show_detail
from swarm.client.workflows import prepare_continuing
from swarm.core.errors import ConfigurationError
from tests.fleet import Fleet
from tests.waiting import wait_for

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"
PATH = os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parents[1])])
SCENARIO = """
name: flows
rules:
  - {when: {prompt: "Refute"}, reply: {text: '{"real": true}'}}
  - {when: {prompt: "Be slow"}, reply: {text: SLOW, latency_seconds: 60}}
  - {when: {prompt: "Review bad"}, reply: {stop_reason: refusal}}
  - {reply: {text: FOUND, latency_seconds: 0.05}}
"""


@pytest.fixture(scope="module")
def flows() -> Iterator[Fleet]:
    """A fleet whose workers have the workflows of `tests/outside/flows`."""
    with closing(Fleet(tools="flows")) as fleet, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDE))
        fleet.start_worker(2, PYTHONPATH=PATH)
        yield fleet


def start(fleet: Fleet, agent: str, task: str, **given: Any) -> Job:
    url = given.pop("url", None) or fleet.rehearse(SCENARIO).url
    limits = Limits(**{"max_depth": 4, "max_agents": 100, **given.pop("limits", {})})
    given = {"allow": ["file_issue"], "workspace": fleet.workspace, **given}
    return fleet.swarm.submit(task, agent=agent, base_url=url, limits=limits, **given)


def asked(fleet: Fleet) -> list[str]:
    """The first text of each request at the newest server."""
    return [str(record) for record in fleet._servers[-1].requests]


def test_a_workflow_runs_agents_votes_calls_and_checks_and_each_agent_is_paid_once(flows: Fleet) -> None:
    job = start(flows, "review", '{"files": ["a", "b", "bad", "c"]}')
    view = job.wait(90)
    assert view.state == "completed", view.reason
    assert view.data["filed"] == ["#5", "#5", "#5"] and view.data["checked"] is True
    [bad] = view.data["bad"]
    assert "refused" in bad
    # Three reviews, one that failed and its second try, and two votes for each finding.
    assert view.agents == 1 + 3 + 2 + 6
    assert flows._servers[-1].stats()["requests"] == view.agents - 1
    told = [event.fields["text"] for event in job.follow(idle_seconds=0.1) if event and event.kind == "note"]
    assert told == ["review", "4 of 4", "file"]
    shown = CliRunner().invoke(app, ["workflows", "show", job.id], env=flows.environment())
    assert shown.exit_code == 0 and "file_issue" in shown.output and "failed" in shown.output, shown.output


def test_moments_timeouts_and_nested_workflows_hold_no_process(flows: Fleet) -> None:
    job = start(flows, "race", "{}")
    view = job.wait(90)
    assert (view.state, view.text) == ("completed", "2 True"), view.reason
    slow = next(agent for agent in job.agents() if agent.label.endswith("Be slow"))
    assert slow.state == "cancelled" and "no longer awaited" in slow.reason
    parked = [entry for entry in flows.swarm.journal(view.root_id) if isinstance(entry, Parked)]
    assert any(entry.condition.until for entry in parked) and any(entry.condition.children for entry in parked)


def test_a_person_answers_a_workflow_and_an_event_may_not_come(flows: Fleet) -> None:
    job = start(flows, "gate", "{}", ask_seconds=60)
    [question] = wait_for("it asks", lambda: flows.swarm.store.questions.open(job.id))
    assert "Release it?" in question.title
    flows.swarm.questions.answer(question.id, "yes", by="user")
    view = job.wait(60)
    assert view.text == "yes, no freeze", view.reason


def test_all_that_a_workflow_asks_and_awaits_at_once_is_open_at_once_and_closed_with_it(flows: Fleet) -> None:
    questions = flows.swarm.questions

    def open_titles(job: Job) -> dict[str, str]:
        return {one.title: one.id for one in questions.open(job.id)}

    def begin(*events: str) -> tuple[Job, dict[str, str]]:
        task = {"name": "gates", "task": {"events": events}}
        job = start(flows, "relay", json.dumps(task), ask_seconds=60)
        wait_for("all are open", lambda: len(open_titles(job)) == 4)
        return job, open_titles(job)

    job, found = begin("frozen/1", "thawed/1")
    assert set(found) == {"Release a?", "Release b?", "frozen/1", "thawed/1"}
    questions.answer(found["Release b?"], "no", by="user")
    wait_for("it goes on to wait for the rest", lambda: len(open_titles(job)) == 3)
    flows.swarm.event("thawed/1", "at noon", by="ci")
    wait_for("the other event is given up", lambda: set(open_titles(job)) == {"Release a?"})
    questions.answer(found["Release a?"], "yes", by="user")
    view = job.wait(60)
    assert view.state == "completed" and view.data[:2] == ["yes", "no"] and "at noon" in view.data[2], view
    cut, _ = begin("frozen/2", "thawed/2")
    cut.cancel()
    wait_for("nothing of it stays open", lambda: not open_titles(cut))


def test_a_program_decides_which_copies_are_merged(flows: Fleet) -> None:
    scenario = r"""
name: pick
rules:
  - {when: {prompt: 'Write (?P<name>\w+)', turn: 0}, reply: {tools: [{name: Write, input: {file_path: out.txt, content: "{name}"}}]}}
  - {reply: {text: DONE}}
"""
    view = start(flows, "pick", "{}", url=flows.rehearse(scenario).url).wait(90)
    assert view.state == "completed" and view.data["done"] == [True] * 3, view.reason
    assert view.data["untouched"] and "A out.txt" in view.data["merged"]
    assert "conflicts with your folder in 1 file" in view.data["clash"] and "one" in view.data["clash"]
    assert view.data["kept"].split()[-1] == "two" and view.data["last"].split()[-1] == "three"


def test_the_lines_of_a_file_are_run_in_parts_below(flows: Fleet) -> None:
    scenario = """
name: survey
rules:
  - {when: {prompt: "Judge bad"}, reply: {stop_reason: refusal}}
  - {when: {prompt: "Judge odd"}, reply: {text: '{"real": false}'}}
  - {reply: {text: '{"real": true}'}}
"""
    # Together they are longer than any result that a model would read.
    lines = [json.dumps({"title": title, "about": "x" * 12_000}) for title in ("a", "bad", "odd", "d", "e")]
    (flows.workspace / "rows.jsonl").write_text("\n".join(lines))
    server = flows.rehearse(scenario)
    job = start(flows, "survey", '{"path": "rows.jsonl"}', url=server.url)
    view = job.wait(60)
    assert view.state == "completed", view.reason
    assert [one if isinstance(one, bool) else "refused" in one for one in view.data] == [True, True, False, True, True]
    assert sorted(agent.depth for agent in job.agents()) == [0, 1, 2, 2, 2, 2, 2]
    # The part in which a row failed runs again, and in it only that row.
    continuing = prepare_continuing(flows.swarm, view, retry_failed=True)
    assert continuing.plan.reused == 1 + 4 and [call.tool for call in continuing.plan.calls] == ["MapRows"]
    again = flows.swarm.place(continuing.prepared).wait(60)
    assert again.agents == 3 and server.stats()["requests"] == 6 and again.data[0] is True, again.reason
    missing = start(flows, "survey", '{"path": "none.jsonl"}', url=flows.rehearse(scenario).url).wait(60)
    assert missing.state == "failed" and "none.jsonl is no file" in missing.reason


def test_a_new_run_makes_only_the_calls_that_failed_or_changed(flows: Fleet) -> None:
    job = start(flows, "review", '{"files": ["a", "bad", "c"]}', url=(server := flows.rehearse(SCENARIO)).url)
    first = job.wait(90)
    before = server.stats()["requests"]
    continuing = prepare_continuing(flows.swarm, first, retry_failed=True)
    assert continuing.expected_usd == 0.0  # rehearsed
    planned = CliRunner().invoke(app, ["resume", first.id, "--retry-failed", "--plan"], env=flows.environment())
    assert "about $0 by the earlier run" in planned.output and planned.output.count("job-") == 1, planned.output
    assert continuing.plan.reused >= 2 and [call.prompt for call in continuing.plan.calls] == ["Review bad"]
    resumed = CliRunner().invoke(app, ["resume", first.id, "--retry-failed"], env=flows.environment())
    assert resumed.exit_code == 0 and "it makes 1 call" in resumed.output, resumed.output
    again = flows.swarm.job(resumed.output.split()[-1]).wait(60)
    assert again.state == "completed", again.reason
    assert again.data["filed"] == first.data["filed"]
    assert server.stats()["requests"] - before == 2  # the failed one, and its second try
    kept = prepare_continuing(flows.swarm, first)
    assert kept.plan.calls == [] and kept.plan.ended is not None and kept.plan.ended.value == first.data
    server.close()
    refused = CliRunner().invoke(app, ["resume", first.id, "--retry-failed"], env=flows.environment())
    assert "whose server has ended" in str(refused.exception), refused.output


def test_a_limit_that_every_further_agent_would_meet_pauses_the_run_and_loses_nothing(flows: Fleet) -> None:
    server = flows.rehearse(SCENARIO)
    # The limit is met in a workflow below, which pauses the one above.
    task = '{"name": "votes", "task": {"rounds": 5}}'
    job = start(flows, "relay", task, url=server.url, limits={"max_agents": 4})
    view = job.wait(60)
    assert view.state == "failed" and view.reason.count("paused: ") == 1, view.reason
    assert view.reason.count(f"Continue it with `swarm resume {job.id}`") == 1, view.reason
    assert server.stats()["requests"] == 2
    # A run that meets the same limit, before it asks for all that it was given, loses nothing of that.
    same = flows.swarm.place(prepare_continuing(flows.swarm, view, max_agents=2).prepared).wait(60)
    assert "paused: " in same.reason and server.stats()["requests"] == 2
    continuing = prepare_continuing(flows.swarm, same, max_agents=20)
    assert continuing.plan.reused == 2 and [call.prompt for call in continuing.plan.calls] == ['{"rounds": 5}']
    again = flows.swarm.place(continuing.prepared).wait(60)
    assert again.data == {"said": 5} and server.stats()["requests"] == 5


def test_an_account_that_cannot_pay_pauses_the_run_instead_of_failing_the_rest(flows: Fleet) -> None:
    # Whether one agent meets the limit or two do, before the run stops, is a matter of moments: it lasts until it is paid.
    poor = flows.rehearse(f"{SCENARIO}\nfaults: [{{kind: spend_limit, after: 2}}]\n")
    view = start(flows, "votes", '{"rounds": 6}', url=poor.url).wait(60)
    assert view.state == "failed" and view.reason.startswith("paused: "), view.reason
    assert view.agents <= 1 + 4, "the others were not started"
    poor.close()
    paid = flows.rehearse(SCENARIO, port=urlsplit(poor.url).port)
    continuing = prepare_continuing(flows.swarm, view)
    again = flows.swarm.place(continuing.prepared).wait(60)
    assert continuing.plan.reused == 2 and again.data == {"said": 6}, again.reason
    assert again.agents == 1 + 4 and paid.stats()["by_status"]["200"] == 4, "what was paid is not paid again"


def test_an_allowance_holds_for_its_agents_together_and_the_rest_goes_on(flows: Fleet) -> None:
    job = start(flows, "frugal", '{"usd": 0.03, "agents": 40}')
    view = job.wait(90)
    assert view.state == "completed" and view.data["last"] == "FOUND", view.reason
    looks = [agent for agent in job.agents() if agent.parent_id and not agent.label.endswith("at the end")]
    print([(a.state, a.stopped_at, a.reason, a.reckoned_usd) for a in looks], view.data)
    spent = sum(agent.reckoned_usd for agent in looks)
    assert 0 < spent <= 0.03 and view.data["left"] == pytest.approx(0.03 - spent)
    assert view.data["left"] < view.data["rest"] < 0.03
    assert view.data["failed"] and all("its workflow's allowance of $0.0300" in why for why in view.data["failed"])


def test_only_a_worker_with_the_same_source_takes_a_workflow(flows: Fleet) -> None:
    server = flows.rehearse(SCENARIO)
    job = start(flows, "votes", '{"rounds": 1}', url=server.url)
    job.wait(60)
    spec = flows.swarm.store.agents.spec(job.view().root_id)
    assert spec.definition.workflow is not None
    other = spec.definition.workflow.model_copy(update={"digest": "000000000000"})
    continuing = prepare_continuing(flows.swarm, job.view())
    definition = spec.definition.model_copy(update={"workflow": other})
    prepared = continuing.prepared
    changed = prepared.spec.model_copy(update={"definition": definition})
    aside = flows.swarm.place(type(prepared)(**{**vars(prepared), "spec": changed}))
    lack = wait_for("nobody takes it", lambda: flows.swarm.find_lacks().get(aside.id))
    assert "the workflow votes@000000000000" in lack
    aside.cancel()


@pytest.mark.long
def test_workers_that_are_killed_cost_no_agent_twice(fleet: Fleet) -> None:
    fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"tools": "flows"})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDE))
        fleet.start_worker(2, PYTHONPATH=PATH)
        server = fleet.rehearse(SCENARIO)
        job = start(fleet, "review", '{"files": ["a", "b", "c", "d", "e", "f"]}', url=server.url)
        for ended in (2, 8):
            wait_for("it goes on", lambda n=ended: sum(agent.ended for agent in job.agents()) >= n, seconds=60)
            fleet.workers[-1].kill()
            fleet.start_worker(2, PYTHONPATH=PATH)
        view = job.wait(120)
        assert view.state == "completed", view.reason
        assert len(view.data["filed"]) == 6
        agents = [agent for agent in job.agents() if agent.parent_id]
        assert len(agents) == 6 + 12 and all(agent.turns == 1 for agent in agents)


def test_models_and_files_start_workflows_that_are_checked_first(flows: Fleet) -> None:
    pytest.importorskip("pydantic_monty")
    pytest.importorskip("quickjs")
    folder = flows.workspace / ".claude" / "workflows"
    folder.mkdir(parents=True)
    head = "export const meta = {name: 'twice', description: 'Asks twice.'}\n"
    (folder / "twice.js").write_text(head + "return (await parallel([1, 2].map(n => () => agent(`Say ${n}`)))).length")
    planner = flows.workspace / ".swarm" / "agents"
    planner.mkdir(parents=True)
    (planner / "planner.md").write_text("---\nname: planner\ndescription: d\ntools: [Workflow]\n---\nPlan.\n")
    scenario = """
name: planner
rules:
  - {when: {definition: planner, turn: 0}, reply: {tools: [{name: Workflow, input: {description: d, script: "await agnt('x')"}}]}}
  - when: {definition: planner, last_result: "Correct the script"}
    reply: {tools: [{name: Workflow, input: {description: d, script: "[await agent('a'), await workflow('twice')]"}}]}
  - {when: {definition: planner, last_text: "task-notification"}, reply: {text: "{last_text}"}}
  - {when: {definition: planner}, reply: {text: RESTING}}
  - {reply: {text: FOUND}}
"""
    job = start(flows, "planner", "Look around.", url=flows.rehearse(scenario).url)
    view = job.wait(90)
    assert view.state == "completed" and "FOUND" in view.text, (view.state, view.reason, view.text)
    [script] = [agent for agent in job.agents() if agent.label.startswith("script")]
    assert script.text == '["FOUND", 2]'


def test_a_planner_writes_a_workflow_that_a_person_sees_before_it_runs(flows: Fleet) -> None:
    pytest.importorskip("pydantic_monty")
    scenario = """
name: planned
rules:
  - when: {definition: flow-planner, turn: 0}
    reply: {tools: [{name: Workflow, input: {description: 2 looks, script: "phase('look')\\n[await agent('a'), await agent('b')]"}}]}
  - {when: {definition: flow-planner, last_text: "task-notification"}, reply: {text: "{last_text}"}}
  - {when: {definition: flow-planner}, reply: {text: RESTING}}
  - {reply: {text: FOUND}}
"""
    given = {"workspace": flows.workspace, "base_url": flows.rehearse(scenario).url, "ask_seconds": 60}
    limits = Limits(max_agents=9, budget_usd=2)
    job = flows.swarm.submit("Look twice.", workflow=True, limits=limits, **given)
    [question] = wait_for("it asks", lambda: flows.swarm.store.questions.open(job.id))
    shown = show_detail(question, full=True)
    bounds, _, rest = "\n".join(shown).partition("its phases: look")
    assert "it can start at most 8 agents, for at most $1.99" in bounds and rest, shown
    assert "script: phase('look')" in shown and "    [await agent('a'), await agent('b')]" in shown, shown
    assert job.view().agents == 1
    flows.swarm.questions.answer(question.id, "allow", by="user")
    view = job.wait(60)
    assert view.state == "completed" and "FOUND" in view.text, (view.reason, view.text)
    assert [agent.phase for agent in job.agents()] == ["", "", "look", "look"]
    keep = ["workflows", "keep", "looks", job.id, "-w", str(flows.workspace)]
    kept = CliRunner().invoke(app, keep, env=flows.environment())
    assert kept.exit_code == 0, kept.output
    checked = CliRunner().invoke(app, ["workflows", "check", kept.output.splitlines()[0]])
    assert "looks: 1 call before its first result" in checked.output, checked.output
    again = CliRunner().invoke(app, keep, env=flows.environment())
    assert "exists; give another name" in str(again.exception)
    with pytest.raises(ConfigurationError, match="begins with flow-planner"):
        flows.swarm.submit("x", workflow=True, agent="plan", **given)
