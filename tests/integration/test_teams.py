"""Teams: founding and dissolving, idling, handshakes; at the level of the steps, and with real workers.

Tests of swarm/capabilities/team/teams.py, swarm/capabilities/team/step.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from swarm.agent.journaled import Condition
from swarm.agent.spec import Limits
from swarm.core.errors import StaleRequest, TeamRefused
from swarm.mailbox import Receiver
from swarm.mailbox.message import Kind
from swarm.store.store import Store
from swarm.store.values import GoOn, NotSpawned, OutgoingMessage, Signals
from tests.fleet import Fleet
from tests.job_world import JobWorld, open_store
from tests.rehearsal import load_scenario
from tests.waiting import wait_for


@pytest.fixture
def world(unmanned: Fleet, store: Store) -> JobWorld:
    return JobWorld(store, unmanned, team=False)


# -- founding and dissolving ---------------------------------------------------------------------------------


def test_a_job_has_one_team_at_a_time_and_the_same_cause_founds_it_once(world: JobWorld) -> None:
    for _ in range(2):
        world.teams.create(world.root, "c", "crew", "builds things")
    team = world.teams.find()
    assert team is not None and (team.name, team.description, team.lead) == ("crew", "builds things", world.root)
    with pytest.raises(TeamRefused, match="has a team already, crew, led by you"):
        world.teams.create(world.root, "d", "other", "")
    with pytest.raises(TeamRefused, match="cannot be a team's name"):
        world.teams.create(world.root, "e", "no spaces", "")
    assert world.teams.delete(world.root, "f") == ([], Signals([], []))
    assert world.teams.find() is None
    world.teams.create(world.root, "g", "other", "")


def test_teammates_need_the_team_of_their_parent(world: JobWorld) -> None:
    answer = world.spawn("ada")
    assert isinstance(answer, NotSpawned) and answer.why == "team"
    assert world.store.jobs.get(world.job_id).agents == 1
    world.teams.create(world.root, "c", "crew", "")
    assert isinstance(world.spawn("ada"), Signals)


def test_a_big_team_is_dissolved_in_steps_and_whoever_goes_on_with_it_ends_all(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    names = [f"m{number}" for number in range(90)]
    for name in names:
        world.start(name)
    request = {"agent": world.root, "cause": "team/d", "force": True, "reason": "dissolved"}
    [first, *_] = world.store.keyspace.run("team", world.job_id, "delete", json.dumps(request))
    states = [world.state(name) for name in names]
    assert first == "more" and 0 < states.count("cancelled") <= 40, "the worker dies here"
    stopped, effect = world.teams.delete(world.root, "d", force=True)
    assert stopped == sorted(names) and len(effect.kill) + states.count("cancelled") == 90
    assert {world.state(name) for name in names} == {"cancelled"}
    assert world.teams.delete(world.root, "d", force=True)[0] == sorted(names)
    assert world.teams.find() is None
    world.teams.create(world.root, "again", "second", "")
    assert world.teams.delete(world.root, "e") == ([], Signals([], []))


def test_a_team_at_work_is_dissolved_by_force_only_and_its_tasks_go_back(world: JobWorld) -> None:
    world.teams.create(world.root, "c", "crew", "")
    for name in ("ada", "ben"):
        world.start(name)
    world.start("solo", teammate=False)
    world.add("x")
    world.take("ada", 1)
    world.rest("ben")
    with pytest.raises(TeamRefused, match="led by root, not by you"):
        world.teams.delete(world.ids["ada"], "d")
    with pytest.raises(TeamRefused, match="ada is still at work"):
        world.teams.delete(world.root, "d")
    assert world.teams.find() is not None
    stopped, effect = world.teams.delete(world.root, "d", force=True)
    assert stopped == ["ada", "ben"]
    if type(world.store.keyspace.client) is redis.Redis:
        assert list(effect.kill) == [world.ids["ada"]]
    assert [world.state(name) for name in ("ada", "ben", "solo")] == ["cancelled", "cancelled", "running"]
    assert world.task(1).state == "pending"
    told = [message for message in world.store.mail.all(world.root) if json.loads(message.body)["what"] == "ended"]
    assert told == [], "the lead has it from the call's result"
    assert world.teams.find() is None


# -- idling --------------------------------------------------------------------------------------------------


def test_an_idle_teammate_holds_no_process_and_mail_wakes_it(world: JobWorld) -> None:
    world.teams.create(world.root, "c", "crew", "")
    world.start("ada")
    world.rest("ada")
    assert world.is_idle("ada")
    assert not world.store.keyspace.client.sismember(
        world.store.keyspace.key("job", world.job_id, "running"), world.ids["ada"]
    )
    _send(world, "root", "ada", "message", body="are you there?")
    assert world.state("ada") == "queued" and not world.is_idle("ada")
    assert {message.body for message in world.wake_and_read("ada")} == {"are you there?"}
    idle = world.store.keyspace.key("job", world.job_id, "team", "idle")
    assert world.store.keyspace.client.zcard(idle) == 0


def test_a_lead_whose_teammates_are_all_idle_has_nothing_to_wait_for(world: JobWorld) -> None:
    world.teams.create(world.root, "c", "crew", "")
    for name in ("ada", "ben"):
        world.start(name)
    world.rest("ada")
    world.read("root")
    assert not isinstance(world.rest("root"), GoOn), "ben is at work"
    world.rest("ben")
    assert world.state("root") == "queued"
    world.wake_and_read("root")
    assert world.rest("root") == GoOn("nothing")


# -- handshakes ----------------------------------------------------------------------------------------------


def _send(world: JobWorld, sender: str, to: str, kind: Kind, body: str = "x", **given: Any) -> None:
    outgoing = OutgoingMessage(
        **{"job": world.job_id, "sender": world.ids[sender], "name": sender, "kind": kind, "body": body, **given}
    )
    world.store.mail.send(outgoing, [Receiver(world.ids[to], to, world.state(to))])


def _request_state(world: JobWorld, request: str) -> str:
    stored = world.store.keyspace.client.hget(world.store.keyspace.key("job", world.job_id, "requests"), request)
    return str(json.loads(stored)["state"])


@pytest.fixture
def pair(unmanned: Fleet) -> JobWorld:
    """A lead with two teammates."""
    world = JobWorld(open_store(unmanned), unmanned)
    for name in ("ada", "ben"):
        world.start(name)
    return world


def test_a_request_is_answered_by_its_receiver_to_its_sender_and_once(pair: JobWorld) -> None:
    _send(pair, "root", "ada", "shutdown_request", request="r1", expires=60)
    with pytest.raises(StaleRequest, match="between others"):
        _send(pair, "ben", "root", "shutdown_response", reply_to="r1", approve=True)
    with pytest.raises(StaleRequest, match="between others"):
        _send(pair, "ada", "ben", "shutdown_response", reply_to="r1", approve=True)
    with pytest.raises(StaleRequest, match="a request for shutdown"):
        _send(pair, "ada", "root", "plan_response", reply_to="r1", approve=True)
    with pytest.raises(StaleRequest, match="no such request"):
        _send(pair, "ada", "root", "shutdown_response", reply_to="r2", approve=True)
    _send(pair, "ada", "root", "shutdown_response", reply_to="r1", approve=False)
    assert _request_state(pair, "r1") == "rejected"
    with pytest.raises(StaleRequest, match="answered already: rejected"):
        _send(pair, "ada", "root", "shutdown_response", reply_to="r1", approve=True)
    kinds = [(message.kind, message.reply_to) for message in pair.store.mail.all(pair.root)]
    assert kinds == [("shutdown_response", "r1")], "what was refused reached nobody"


def test_an_expired_request_cannot_be_answered(pair: JobWorld) -> None:
    _send(pair, "root", "ada", "shutdown_request", request="r1", expires=-1)
    with pytest.raises(StaleRequest, match="it has expired"):
        _send(pair, "ada", "root", "shutdown_response", reply_to="r1", approve=True)
    assert _request_state(pair, "r1") == "open"


def test_the_answer_to_one_plan_says_nothing_about_the_next(pair: JobWorld) -> None:
    for plan in ("p1", "p2"):
        _send(pair, "ada", "root", "plan_request", request=plan, expires=60)
    _send(pair, "root", "ada", "plan_response", reply_to="p1", approve=True)
    assert (_request_state(pair, "p1"), _request_state(pair, "p2")) == ("approved", "open")
    with pytest.raises(StaleRequest, match="answered already"):
        _send(pair, "root", "ada", "plan_response", reply_to="p1", approve=False)
    _send(pair, "root", "ada", "plan_response", reply_to="p2", approve=False)
    assert _request_state(pair, "p2") == "rejected"


def test_a_request_to_one_that_left_never_reaches_its_successor(pair: JobWorld) -> None:
    _send(pair, "root", "ada", "shutdown_request", request="r1", expires=60)
    pair.store.agents.cancel(pair.ids["ada"], "enough")
    answer = pair.spawn("ada2", parent="root")
    assert isinstance(answer, Signals)
    pair.run("ada2")
    taken = pair.store.keyspace.client.hget(pair.store.keyspace.key("job", pair.job_id, "names"), "ada")
    assert taken == pair.ids["ada"], "the name stays with who had it"
    with pytest.raises(StaleRequest, match="between others"):
        _send(pair, "ada2", "root", "shutdown_response", reply_to="r1", approve=True)
    assert not list(pair.store.mail.all(pair.ids["ada2"]))


# -- with real workers ---------------------------------------------------------------------------------------


def _story(fleet: Fleet, agent_id: str) -> str:
    return "\n".join(entry.model_dump_json() for entry in fleet.swarm.journal(agent_id))


def test_a_team_of_four_works_through_a_board_and_leaves_by_handshake(at_work: Fleet) -> None:
    """The scenario that `swarm run --rehearse team` plays."""
    server = at_work.rehearse("team")
    job = at_work.swarm.submit("go", agent="build", workspace=at_work.workspace, base_url=server.url)
    view = job.wait(90)
    assert (view.state, server.stats()["unmatched"]) == ("completed", [])
    agents = {agent.label.partition(": ")[2]: agent for agent in job.agents()[1:]}
    assert len(agents) == 4 and {agent.state for agent in agents.values()} == {"completed"}
    tasks = job.board()
    assert [task.state for task in tasks] == ["completed"] * len(tasks) and len(tasks) >= 4
    assert len({task.owner for task in tasks}) == 4
    assert [page.name for page in job.pad()]
    story = _story(at_work, view.root_id)
    assert "The team is dissolved" in story and story.count('kind=\\"shutdown_response\\"') == 4
    assert load_scenario("team").name == "team"


def test_a_teammate_without_a_team_is_told_how_to_found_one(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: no-team
rules:
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: a, prompt: a, name: ada, teammate: true}},
      {name: Agent, input: {description: b, prompt: b, name: ben, teammate: true}}]}
  - reply: {text: "{last_result}"}
"""
    )
    job = at_work.submit("go", server)
    text = job.wait(30).text
    assert text.count("found one with TeamCreate first") == 2
    assert len(job.agents()) == 1


def test_a_lead_waits_for_the_board_without_a_process_and_a_stopped_owners_task_is_taken_over(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: takeover
rules:
  - when: {prompt: '^slow', turn: 0}
    reply: {tools: [{name: BoardClaim, input: {}}]}
  - when: {prompt: '^slow', turn: 1}
    reply: {text: never, latency_seconds: 60}
  - when: {prompt: '^quick', turn: 0}
    reply: {text: nothing to do yet}
  - when: {prompt: '^quick', last_text: 'Task (?P<n>\\d+) of the board is free and fits you'}
    reply: {tools: [{name: BoardClaim, input: {task_id: 1}}]}
  - when: {prompt: '^quick', last_result: 'Task 1 is yours'}
    reply: {tools: [{name: BoardComplete, input: {task_id: 1, result: taken over}}]}
  - when: {prompt: '^quick'}
    reply: {text: done with it}
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew}}, {name: BoardAdd, input: {subject: the task}},
      {name: Agent, input: {description: slow, prompt: slow, name: slow, teammate: true}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: "sleep 0.5"}}]}
  - when: {turn: '2+', last_result: '\\[ \\] 1'}
    reply: {tools: [{name: BoardList, input: {}}]}
  - when: {turn: 2}
    reply: {tools: [{name: BoardList, input: {}}]}
  - when: {last_result: 'slow has it'}
    reply: {tools: [{name: Agent, input: {description: quick, prompt: quick, name: quick, teammate: true}},
      {name: StopAgent, input: {agent_id: slow}}, {name: BoardWait, input: {task_ids: [1], timeout_seconds: 60}}]}
  - when: {last_result: '1 of 1 completed'}
    reply: {tools: [{name: TeamDelete, input: {force: true}}]}
  - reply: {text: "{last_result}"}
"""
    )
    job = at_work.submit("go", server, agent="build")
    assert "The team is dissolved" in job.wait(60).text
    [task] = job.board()
    assert (task.state, task.owner_name) == ("completed", "quick")
    parked = [entry.condition for entry in at_work.swarm.journal(job.view().root_id) if entry.kind == "parked"]
    assert Condition(tasks=["1"], mail="talk").tasks in [condition.tasks for condition in parked]
    changes = [event.fields["change"] for event in job.follow(idle_seconds=0.1) if event and event.kind == "board"]
    assert changes == ["added", "claimed", "released", "claimed", "completed"]


@pytest.mark.parametrize("count", [50, pytest.param(200, marks=pytest.mark.long)])
def test_idle_teammates_hold_no_process_and_any_of_them_answers(at_work: Fleet, count: int) -> None:
    calls = ", ".join(
        f"{{name: Agent, input: {{description: m{n}, prompt: 'member {n}', name: m{n}, teammate: true}}}}"
        for n in range(count)
    )
    server = at_work.rehearse(
        f"""
name: idlers
rules:
  - when: {{last_text: 'member 42 answers', prompt: '^go'}}
    reply: {{text: it answered}}
  - when: {{prompt: '^member (?P<n>\\d+)', turn: 0}}
    reply: {{text: 'here is {{n}}'}}
  - when: {{prompt: '^member (?P<n>\\d+)', last_text: 'from="root"'}}
    reply: {{tools: [{{name: SendMessage, input: {{to: parent, message: 'member {{n}} answers'}}}}]}}
  - when: {{prompt: '^member'}}
    reply: {{text: idle again}}
  - when: {{turn: 0}}
    reply: {{tools: [{{name: TeamCreate, input: {{name: crew}}}}, {calls}]}}
  - when: {{turn: 1}}
    reply: {{tools: [{{name: WaitAgents, input: {{timeout_seconds: 600}}}}]}}
  - when: {{last_result: 'None of them is at work'}}
    reply: {{tools: [{{name: SendMessage, input: {{to: m42, message: 'are you there?'}}}},
      {{name: WaitAgents, input: {{timeout_seconds: 60}}}}]}}
  - reply: {{text: "waiting"}}
"""
    )
    job = at_work.submit("go", server, agent="build")
    wait_for("all have reported", lambda: len([a for a in job.agents() if a.turns]) == count + 1, 100)
    assert job.wait(110).state == "completed"
    # The notice that m42 is idle again may come after its message, and be answered with something else.
    replies = [entry for entry in at_work.swarm.journal(job.view().root_id) if entry.kind == "assistant"]
    assert "it answered" in [block.get("text") for reply in replies for block in reply.content]
    answered = [a for a in job.agents()[1:] if a.turns > 1]
    assert [agent.label for agent in answered] == ["general-purpose: m42"]


def test_the_defaults_leave_room_for_a_team() -> None:
    assert Limits().max_depth >= 1


def test_a_plain_agent_hears_nothing_of_the_board_and_a_teammate_of_all(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: who-has-what
rules:
  - when: {turn: 0, prompt: '^(leaf|mate)'}
    reply: {text: fine}
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew}},
      {name: Agent, input: {description: leaf, prompt: leaf}},
      {name: Agent, input: {description: mate, prompt: mate, name: mate, teammate: true, subagent_type: explore}}]}
  - reply: {text: over}
"""
    )
    job = at_work.submit("go", server, agent="build", max_depth=1)
    job.wait(30)
    root, *others = job.agents()
    leaf, mate = sorted(others, key=lambda agent: agent.label.endswith("mate"))
    tools = {agent.id: _tools(at_work, agent.id) for agent in (root, leaf, mate)}
    assert {"TeamCreate", "BoardAdd", "ScratchpadWrite"} <= tools[root.id]
    assert not any(name.startswith(("Board", "Team")) for name in tools[leaf.id])
    assert "ScratchpadRead" in tools[leaf.id]
    assert {"BoardClaim", "ScratchpadRead", "SendMessage"} <= tools[mate.id]
    assert not tools[mate.id] & {"TeamCreate", "Edit", "Write"}


def _tools(fleet: Fleet, agent_id: str) -> set[str]:
    started = wait_for("it has begun", lambda: next(iter(fleet.swarm.journal(agent_id)), None))
    return {tool["name"] for tool in started.tools}  # type: ignore[union-attr]
