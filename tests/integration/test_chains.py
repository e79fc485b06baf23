"""Chains of models: an agent that asks another model when the last one does not answer, is unknown or may not be used.

Tests of swarm/agent/chains.py, swarm/runtime/switching.py, swarm/store/lua/switch_model.lua,
swarm/cli/local_models.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing

import pytest

from swarm import Job, Swarm
from swarm.agent.entries import Assistant, Compacted, Entry, ModelFailed, Started, Switched
from swarm.agent.journaled import Condition
from swarm.agent.needs import Has, formats, read_needs
from swarm.agent.transcript import tell
from swarm.cli.local_models import check_local_models, find_local_servers
from swarm.client.event_feed import stream
from swarm.core.errors import ConfigurationError
from swarm.core.release import FORMAT
from swarm.models import Usage
from swarm.models.facts import NO_FACTS, ModelFacts, name_at
from swarm.models.router import AnyModel
from swarm.replay.check import check_requests
from swarm.replay.past import read_past
from swarm.runtime.segment import Waits
from swarm.runtime.switching import write_switch
from swarm.runtime.wait import park
from swarm.store.spending import ModelStore
from swarm.store.store import Store
from swarm.store.values import GoOn
from swarm.streaming.events import Notice
from swarm.telemetry.spans import Fold
from tests.fleet import Fleet
from tests.job_world import JobWorld, StoredJob
from tests.segments import make_segment
from tests.waiting import wait_for

FIRST, SECOND, THIRD = "claude-sonnet-5-5", "openai:gpt-6", "groq:llama-4"
CHAIN = f"{FIRST}, {SECOND}, {THIRD}"
WORKS = """
rules:
  - {when: {turn: 0}, reply: {thinking: 'first thoughts', tools: [{name: Read, input: {file_path: notes.txt}}]}}
  - {when: {turn: 1}, reply: {thinking: 'second thoughts', tools: [{name: Read, input: {file_path: notes.txt}}]}}
  - {when: {turn: '2+'}, reply: {text: 'the notes are read'}}
"""
OVERLOADED = f"""
name: overloaded
faults: [{{kind: '529', when: {{model: '{FIRST}', turn: '1+'}}, retry_after: 0.01}}]
{WORKS}"""
GONE = f"name: gone\nmodels: [gpt-6, llama-4]\n{WORKS}"
FORBIDDEN = f"name: forbidden\nfaults: [{{kind: '403', when: {{model: '{FIRST}'}}}}]\n{WORKS}"


def _run(fleet: Fleet, scenario: str, *, model: str = CHAIN, **order: object) -> Job:
    server = fleet.rehearse(scenario)
    (fleet.workspace / "notes.txt").write_text("the notes\n")
    return fleet.swarm.submit(
        "read the notes", workspace=fleet.workspace, base_url=server.url, model=model, mode="bypassPermissions", **order
    )


def _entries(fleet: Fleet, job: Job) -> list[Entry]:
    return list(fleet.swarm.store.journals.read(job.view().root_id))


def _switches(entries: list[Entry]) -> list[tuple[str, str, str]]:
    return [(one.was, one.model, one.reason) for one in entries if isinstance(one, Switched)]


def test_an_overloaded_model_is_left_after_three_tries_and_the_switch_is_seen_everywhere(at_work: Fleet) -> None:
    job = _run(at_work, OVERLOADED)
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "the notes are read"), view
    entries = _entries(at_work, job)
    assert _switches(entries) == [(FIRST, SECOND, "overloaded")]
    # One answer of the first model, three refusals, then the second for the rest of the run.
    talk = [one for one in entries if isinstance(one, Assistant | ModelFailed | Switched)]
    assert [one.kind for one in talk] == ["assistant", *["model_failed"] * 3, "switched", "assistant", "assistant"]
    assert [one.model for one in talk if isinstance(one, Assistant)] == [FIRST, SECOND, SECOND]
    # The journal keeps the first model's thinking, the second is not sent it, and each request is as its journal says.
    assert talk[0].content[0]["type"] == "thinking"  # type: ignore[union-attr]
    assert {check.outcome for check in check_requests(read_past(at_work.swarm.store, job.id))} == {"same"}
    agent = at_work.swarm.store.agents.get(job.view().root_id)
    assert agent.model == SECOND
    [item] = [item for item in tell(entries) if item.title.startswith(f"asks {SECOND} from now on, no longer {FIRST}")]
    assert "overloaded" in item.aside
    notices = [event for event in stream(at_work.swarm, job) if isinstance(event, Notice) and event.kind == "switched"]
    assert [(one.about["model"], one.about["was"], one.about["reason"]) for one in notices] == [
        (SECOND, FIRST, "overloaded")
    ]
    fold, spans = Fold(agent, "anthropic", ""), []
    for stored in at_work.swarm.store.journals.stored(agent.id):
        made, counts = fold.take(stored)
        spans += made
        assert counts["switches|overloaded"] == (json.loads(stored.document)["kind"] == "switched")
    assert [span.name for span in spans if span.name.startswith("chat")][-1] == f"chat {SECOND}"


@pytest.mark.parametrize(("scenario", "reason"), [(GONE, "gone"), (FORBIDDEN, "forbidden")], ids=["gone", "forbidden"])
def test_a_model_that_is_unknown_or_forbidden_is_left_at_once(at_work: Fleet, scenario: str, reason: str) -> None:
    job = _run(at_work, scenario)
    assert job.wait(60).state == "completed"
    entries = _entries(at_work, job)
    assert _switches(entries) == [(FIRST, SECOND, reason)]
    assert sum(isinstance(one, ModelFailed) for one in entries) == 1


def test_a_limit_that_says_when_and_a_spend_limit_change_no_model(at_work: Fleet) -> None:
    waits = f"name: waits\nfaults: [{{kind: '429', times: 5, retry_after: 0.05}}]\n{WORKS}"
    job = _run(at_work, waits)
    assert job.wait(60).state == "completed"
    assert _switches(_entries(at_work, job)) == []
    job = _run(at_work, f"name: spent\nfaults: [{{kind: spend_limit}}]\n{WORKS}")
    view = job.wait(60)
    assert view.state == "failed" and "spend limit" in view.reason
    assert _switches(_entries(at_work, job)) == []


def test_a_model_whose_limits_are_used_up_is_passed_over(at_work: Fleet) -> None:
    server = at_work.rehearse(OVERLOADED)
    (at_work.workspace / "notes.txt").write_text("the notes\n")
    order = {"workspace": at_work.workspace, "base_url": server.url, "mode": "bypassPermissions"}
    assert at_work.swarm.submit("read the notes", model=SECOND, **order).wait(60).state == "completed"
    # A rehearsal has limits of its own.
    held = AnyModel.rehearsing(at_work.settings, server.url).limit_class(SECOND)
    assert at_work.swarm.store.rates.hold(held, 300) is not None
    job = at_work.swarm.submit("read the notes", model=CHAIN, **order)
    assert job.wait(60).state == "completed"
    [switched] = [one for one in _entries(at_work, job) if isinstance(one, Switched)]
    assert switched.model == THIRD and "its limits are used up" in switched.passed_over[SECOND]


def test_a_next_run_asks_the_first_model_again(at_work: Fleet) -> None:
    once = f"name: once\nfaults: [{{kind: '404', when: {{model: '{FIRST}'}}, times: 1}}]\nrules: [{{reply: {{text: done}}}}]\n"
    job = _run(at_work, once.replace("'404'", "'403'"))
    assert job.wait(60).state == "completed"
    job.send(job.view().root_id, "and again")
    wait_for("its next run", lambda: job.view().turns == 2 and job.view().ended, 30)
    switches = [(FIRST, SECOND, "forbidden"), (SECOND, FIRST, "new run")]
    assert _switches(_entries(at_work, job)) == switches
    assert at_work.swarm.store.agents.get(job.view().root_id).model == FIRST


def test_a_person_changes_the_model_of_an_agent_that_waits_for_it(at_work: Fleet) -> None:
    away = f"name: away\nfaults: [{{kind: '529', when: {{model: '{FIRST}', turn: '1'}}, retry_after: 3000}}]\n{WORKS}"
    job = _run(at_work, away, model=FIRST)
    root = job.view().root_id
    at_work.wait_state(root, "parked")
    command = [sys.executable, "-m", "swarm", "send", root, "--model", SECOND]
    told = subprocess.run(command, env=at_work.environment(), capture_output=True, text=True, check=True)
    assert f"asks {SECOND} from its next request on" in told.stderr
    assert job.wait(60).state == "completed"
    entries = _entries(at_work, job)
    assert _switches(entries) == [(FIRST, SECOND, "chosen")]
    assert [one.model for one in entries if isinstance(one, Assistant)] == [FIRST, SECOND, SECOND]
    # It lasts, until a person chooses again; what was kept from the second model comes back to the first.
    at_work.swarm.choose_model(root, FIRST, by="me")
    job.send(root, "and again")
    wait_for("its next run", lambda: job.view().turns == 4 and job.view().ended, 30)
    entries = _entries(at_work, job)
    assert _switches(entries)[1:] == [(SECOND, FIRST, "chosen")]
    assert {check.outcome for check in check_requests(read_past(at_work.swarm.store, job.id))} == {"same"}
    with pytest.raises(ConfigurationError, match="is not a model: name one"):
        at_work.swarm.choose_model(root, f"{FIRST}, {SECOND}")


def test_the_old_model_summarizes_what_the_chosen_one_cannot_hold(at_work: Fleet) -> None:
    reads = """
name: long
rules:
  - {when: {summarizing: true}, reply: {text: 'in short: the notes were read'}}
  - {when: {last_text: 'and again'}, reply: {text: done}}
  - {when: {turn: '0-2'}, reply: {tools: [{name: Read, input: {file_path: notes.txt}}]}}
  - {when: {turn: 3}, reply: {tools: [{name: Bash, input: {command: "until [ -e go ]; do sleep 0.05; done"}}]}}
  - {reply: {text: done}}
"""
    server = at_work.rehearse(reads)
    at_work.workspace.joinpath("notes.txt").write_text("a line of the notes that is long enough\n" * 900)
    job = at_work.swarm.submit(
        "read the notes", workspace=at_work.workspace, base_url=server.url, model=FIRST, mode="bypassPermissions"
    )
    root, facts = job.view().root_id, ModelStore(at_work.swarm.store.keyspace)
    facts.add_facts(name_at(SECOND, server.url), ModelFacts(window=48_000), first=NO_FACTS)
    facts.add_facts(name_at(THIRD, server.url), ModelFacts(window=4_000), first=NO_FACTS)
    wait_for("its third turn", lambda: job.view().turns == 4 or None, 30)
    at_work.swarm.choose_model(root, THIRD)
    (at_work.workspace / "go").touch()
    assert job.wait(60).state == "completed"
    [stays] = [one for one in _entries(at_work, job) if isinstance(one, Switched)]
    assert (stays.model, stays.was) == (FIRST, FIRST) and "is too small" in stays.passed_over[THIRD]
    at_work.swarm.choose_model(root, SECOND)
    job.send(root, "and again")
    wait_for("its next run", lambda: job.view().turns == 6 and job.view().ended, 30)
    later = [one for one in _entries(at_work, job) if isinstance(one, Compacted | Switched | Assistant)][-3:]
    assert [(one.kind, one.model) for one in later] == [
        ("compacted", "claude-haiku-5-5"),
        ("switched", SECOND),
        ("assistant", SECOND),
    ]


def test_a_child_has_its_parents_model_of_then_and_its_chain(at_work: Fleet) -> None:
    spawns = f"""
name: spawns
faults: [{{kind: '529', when: {{model: '{FIRST}'}}, retry_after: 0.01}}]
rules:
  - {{when: {{last_result: 'the child is done'}}, reply: {{text: all is done}}}}
  - {{when: {{prompt: 'look around'}}, reply: {{text: the child is done}}}}
  - reply: {{tools: [{{name: Agent, input: {{description: look, prompt: look around, subagent_type: general-purpose}}}}]}}
"""
    job = _run(at_work, spawns)
    assert job.wait(60).state == "completed", job.view()
    [child] = [one for one in at_work.swarm.store.agents.of(job.id) if one.parent_id]
    spec = at_work.swarm.store.agents.spec(child.id)
    assert (spec.model, spec.fallbacks) == (SECOND, (THIRD, FIRST))
    assert _switches(list(at_work.swarm.store.journals.read(child.id))) == []


def test_an_agent_moves_to_the_worker_that_may_ask_its_model_before_it_asks_another(fleet: Fleet) -> None:
    server = fleet.rehearse(f"name: keys\n{WORKS}")
    (fleet.workspace / "notes.txt").write_text("the notes\n")
    vendors = {"groq": f"{server.url}/v1 GROQ_API_KEY", "ours": f"{server.url}/v1 OURS_KEY"}
    order = {"model": "groq:m-1, ours:m-2", "workspace": fleet.workspace, "mode": "bypassPermissions"}
    fleet.start_worker(1, OURS_KEY="sk-2", SWARM_VENDORS=json.dumps(vendors))
    alone = fleet.swarm.submit("read the notes", **order)
    assert alone.wait(60).state == "completed"
    assert _switches(_entries(fleet, alone)) == [("groq:m-1", "ours:m-2", "forbidden")]
    keyed = fleet.start_worker(1, OURS_KEY="sk-2", SWARM_VENDORS=json.dumps(vendors), GROQ_API_KEY="sk-1")
    for _ in range(3):
        moved = fleet.swarm.submit("read the notes", **order)
        assert moved.wait(60).state == "completed"
        assert _switches(_entries(fleet, moved)) == []
    assert server.stats()["by_model"]["m-1"] == 9, keyed.text()


def test_a_choice_between_a_failure_and_the_wait_after_it_is_not_lost(store: Store, unmanned: Fleet) -> None:
    claim = JobWorld(store, unmanned, team=False).claims["root"]
    segment, again = make_segment(claim, store), time.time() + 600
    wanted = json.dumps({"id": "x", "model": SECOND, "by": "me"})
    store.agents.want(claim.agent_id, "model", wanted)
    assert park(segment, Condition(until=again, model=True)) == GoOn("model", wanted)
    assert segment.journal.chosen == wanted
    # A choice that it knows holds up no wait.
    assert isinstance(park(segment, Condition(until=again, model=True)), Waits)
    store.agents.want(claim.agent_id, "model", wanted)
    assert store.agents.get(claim.agent_id).state == "queued"


def test_a_choice_that_no_worker_can_serve_can_be_taken_back(store: Store, unmanned: Fleet) -> None:
    known = dict.fromkeys(formats(1, FORMAT), "")
    with closing(Swarm(unmanned.settings)) as swarm:
        swarm.store = store
        world = StoredJob(store, unmanned)
        claim = world.take_claim(root := world.spec.agent_id)
        segment = make_segment(claim, store)
        store.fleet.announce("a", Has(offers=known), 60)
        store.fleet.staff("a", 1, 60)
        segment.journal.append([Started(spec=claim.spec)])
        write_switch(segment, Switched(model=SECOND, was="model", reason="chosen"))
        store.agents.hand_over(claim, "it cannot use the model")
        assert root in store.fleet.aside(0, 10) and "a key for openai" in swarm.agent(root).unserved
        assert swarm.choose_model(root, THIRD) == "queued"
        assert root in store.fleet.aside(0, 10) and "a key for groq" in swarm.agent(root).unserved
        assert swarm.choose_model(root, FIRST) == "queued"
        assert root not in store.fleet.aside(0, 10) and not swarm.agent(root).unserved
        [hint] = store.agents.hints([root])
        assert hint is not None and (needs := read_needs(hint.needs)) is not None and needs.model == FIRST
        # Another choice leaves an agent to the worker that can ask its model, which may have to summarize first.
        swarm.choose_model(root, SECOND)
        assert store.agents.hints([root]) == [hint]


def test_the_ledger_has_the_model_that_an_agent_was_switched_to(store: Store, unmanned: Fleet) -> None:
    claim = JobWorld(store, unmanned, team=False).claims["root"]
    segment = make_segment(claim, store)
    journal, usage = segment.journal, Usage(output_tokens=3)
    journal.append([Started(spec=claim.spec)])
    write_switch(segment, Switched(model=SECOND, was="model", reason="chosen"))
    charge = {"content": [], "stop_reason": "end_turn", "usage": usage, "unpriced_tokens": 3}
    journal.append([Assistant.model_validate({**charge, "model": SECOND})])
    journal.append([Assistant.model_validate({**charge, "model": "model"})])
    [ledger] = ModelStore(store.keyspace).spending().values()
    assert {model: counters.output for model, counters in ledger.items()} == {SECOND: 3, "model": 3}


def test_the_doctor_finds_servers_of_models_on_this_host(at_work: Fleet) -> None:
    server = at_work.rehearse(f"name: local\nmodels: ['qwen3:8b']\n{WORKS}")
    nowhere = dict.fromkeys(("vllm", "llamacpp", "lmstudio"), "http://127.0.0.1:9/v1")
    settings = at_work.settings.model_copy(update={"vendors": {**nowhere, "ollama": f"{server.url}/v1"}})
    [found] = find_local_servers(settings)
    assert (found.vendor, found.models) == ("ollama", ["ollama:qwen3:8b"])
    check = check_local_models(settings)
    assert "ollama:qwen3:8b" in check.found and "shorten long prompts in silence" in check.remedy and not check.needed
    away = settings.model_copy(update={"vendors": {**nowhere, "ollama": nowhere["vllm"]}})
    assert check_local_models(away).found == "none"
