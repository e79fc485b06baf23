"""The limits of a job: what others have only reserved is waited for, and at every limit the root returns what there is.

Tests of swarm/store/values.py.
"""

from __future__ import annotations

import secrets

import pytest

from swarm.agent.entries import Parked, Prompt
from swarm.agent.journaled import Condition
from swarm.mailbox import Receiver
from swarm.store.store import Store
from swarm.store.values import Busy, Counters, GoOn, Granted, OutgoingMessage, OutOfBudget, Reservation
from tests.fleet import Fleet
from tests.job_world import JobWorld
from tests.waiting import wait_for

# -- the purse, step by step -------------------------------------------------------------------------------------------


@pytest.fixture
def budget(unmanned: Fleet, store: Store) -> JobWorld:
    """A job that may use 1 000 tokens; its root has two children, `a` and `b`, which run."""
    world = JobWorld(store, unmanned, team=False, max_tokens=1_000)
    world.start("a", teammate=False)
    world.start("b", teammate=False)
    return world


def _reserve(world: JobWorld, name: str, tokens: int, *, final: bool = False, closing: int = 0) -> object:
    reservation = Reservation(tokens, 0, closing_tokens=closing)
    return world.store.agents.reserve(world.claims[name], reservation, final=final)


def _settle(world: JobWorld, name: str, tokens: int) -> list[str]:
    """The call is over and took so much; returns who goes on because of that."""
    number = world.lengths[name] + 1
    counted = Counters(input=tokens, turns=1)
    done = world.store.journals.append(world.claims[name], number, [Prompt(text="x")], counters=counted, settle=True)
    world.lengths[name] += 1
    return [called[0] for called in done.effect.publish]


def _wait(world: JobWorld, name: str, tokens: int) -> object:
    condition = Condition(budget=(tokens, 0))
    number = world.lengths[name] + 1
    answer = world.store.agents.park(world.claims[name], number, Parked(condition=condition), condition)
    world.lengths[name] += not isinstance(answer, GoOn)
    return answer


def test_what_others_have_only_reserved_is_waited_for_until_it_is_settled(budget: JobWorld) -> None:
    assert isinstance(_reserve(budget, "a", 800), Granted)
    assert _reserve(budget, "b", 500) == Busy(500, 0)
    _wait(budget, "b", 500)
    assert budget.state("b") == "parked"
    _settle(budget, "a", 100)
    assert budget.state("b") == "queued"
    budget.run("b")
    assert isinstance(_reserve(budget, "b", 500), Granted)


@pytest.mark.parametrize("how", ["hands over", "ends", "is cancelled", "dies"])
def test_whoever_gives_a_reservation_back_without_settling_it_wakes_those_who_wait(budget: JobWorld, how: str) -> None:
    _reserve(budget, "a", 800)
    _wait(budget, "b", 500)
    match how:
        case "hands over":
            budget.store.agents.hand_over(budget.claims["a"], "its worker goes away")
        case "ends":
            budget.end("a")
        case "is cancelled":
            budget.store.agents.cancel(budget.ids["a"], "enough")
        case "dies":
            budget.store.leases.rescue(
                max_deaths=5, outbox_age_seconds=60, batch=0, dead=[(budget.ids["a"], "worker-a")]
            )
    assert budget.state("b") == "queued"
    assert budget.store.jobs.get(budget.job_id).reserved_tokens == 0


def test_nobody_parks_for_what_has_been_settled_meanwhile(budget: JobWorld) -> None:
    _reserve(budget, "a", 800)
    assert isinstance(_reserve(budget, "b", 500), Busy)
    _settle(budget, "a", 100)
    assert _wait(budget, "b", 500) == GoOn("budget")


def test_who_waits_for_what_is_used_up_is_woken_and_told(budget: JobWorld) -> None:
    _reserve(budget, "a", 800)
    _wait(budget, "b", 500)
    _settle(budget, "a", 800)
    assert budget.state("b") == "queued"
    budget.run("b")
    assert _reserve(budget, "b", 500) == OutOfBudget("tokens", 1_000, 800)


@pytest.mark.parametrize(("earlier", "first"), [(0, "b"), (30, "root")])
def test_deeper_agents_get_what_is_settled_first_but_not_for_ever(budget: JobWorld, earlier: int, first: str) -> None:
    _reserve(budget, "a", 800)
    _wait(budget, "root", 500)
    line = budget.store.keyspace.key("job", budget.job_id, "budget")
    budget.store.keyspace.client.zincrby(line, -earlier, budget.root)
    _wait(budget, "b", 500)
    _settle(budget, "a", 100)
    assert [name for name in ("root", "b") if budget.state(name) == "queued"] == [first]


def test_an_agent_with_children_keeps_its_last_reply_until_its_end(budget: JobWorld) -> None:
    _reserve(budget, "root", 100, closing=300)
    _settle(budget, "root", 100)
    # 1 000, less what the root used and what it keeps.
    assert isinstance(_reserve(budget, "a", 601), OutOfBudget)
    assert isinstance(_reserve(budget, "a", 600), Granted)
    _settle(budget, "a", 600)
    assert isinstance(_reserve(budget, "root", 301), OutOfBudget)
    assert isinstance(_reserve(budget, "root", 300, final=True), Granted)


# -- the ends ------------------------------------------------------------------------------------------------------------


def test_with_a_fifth_more_than_the_real_cost_forty_parallel_children_all_complete(at_work: Fleet) -> None:
    prompt = "TREE depth=1 fanout=40 steps=1"
    free = at_work.submit(prompt, at_work.rehearse()).wait(60)
    budget = 1.2 * free.reckoned_usd
    job = at_work.submit(prompt, at_work.rehearse(), budget_usd=budget)
    view = job.wait(120)
    assert (view.state, view.text) == ("completed", "DONE 41")
    assert view.reckoned_usd <= budget and {agent.state for agent in job.agents()} == {"completed"}


def test_when_its_tree_has_used_up_all_the_root_still_returns_what_it_has(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=2 fanout=5 steps=3", at_work.rehearse(), max_tokens=100_000)
    view = job.wait(60)
    assert view.state == "completed" and "DONE" in view.text and view.usage.total_tokens <= 100_000


SLEEPING_CHILD = "{when: {prompt: SLEEP, turn: 0}, reply: {text: child begins, tools: [{name: Bash, input: {command: 'sleep 100'}}]}}"


def test_at_the_time_limit_a_root_that_waits_is_woken_for_its_last_words(at_work: Fleet) -> None:
    server = at_work.rehearse(
        f"""
name: late
rules:
  - {SLEEPING_CHILD}
  - {{when: {{tools_allowed: false}}, reply: {{text: LAST WORDS}}}}
  - {{when: {{turn: 0}}, reply: {{text: so far, tools: [{{name: Agent, input: {{description: c, prompt: SLEEP}}}}]}}}}
"""
    )
    job = at_work.submit("go", server, timeout_seconds=2)
    view = job.wait(30)
    assert (view.state, view.text) == ("timed_out", "LAST WORDS")
    root, child = job.agents()
    assert (child.state, child.text) == ("cancelled", "child begins")
    assert "child begins" in str(at_work.swarm.journal(root.id))


def test_a_root_that_is_busy_at_its_time_limit_is_interrupted_at_half_of_its_grace(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: busy
rules:
  - when: {turn: 0}
    reply: {text: so far, tools: [{name: Bash, input: {command: "echo begun >> log; sleep 300"}}]}
  - reply: {text: "LAST WORDS after {last_result}"}
"""
    )
    job = at_work.submit("go", server, timeout_seconds=600)
    store, root = at_work.swarm.store, job.view().root_id
    wait_for("it is busy", lambda: (at_work.workspace / "log").exists())
    store.keyspace.client.hset(store.keyspace.key("job", job.id), "deadline", store.now())
    for overtime in ("1", "2"):
        # Its time is over now; and now half of its grace is.
        store.keyspace.client.zadd(store.keyspace.key("deadlines"), {job.id: 1}, xx=True)
        wait_for(
            "it is seen",
            lambda n=overtime: store.keyspace.client.hget(store.keyspace.key("job", job.id), "overtime") == n,
        )
        assert store.agents.get(root).state == "running" or overtime == "2", (
            "what it began before has half of the grace"
        )
    view = job.wait(20)
    assert (view.state, view.text[:20]) == ("timed_out", "LAST WORDS after Thi")
    assert "interrupted" in view.text
    assert (at_work.workspace / "log").read_text() == "begun\n"
    assert store.keyspace.client.hget(store.keyspace.key("agent", root), "deaths") is None
    assert store.keyspace.client.zscore(store.keyspace.key("deadlines"), job.id) is None


def test_a_text_that_was_said_is_the_answer_of_an_agent_that_is_ended_from_outside(at_work: Fleet) -> None:
    server = at_work.rehearse(
        f"""
name: rest
rules:
  - {SLEEPING_CHILD}
  - when: {{turn: 0}}
    reply: {{tools: [{{name: Agent, input: {{description: c, prompt: SLEEP, run_in_background: true}}}}]}}
  - {{reply: {{text: THE WHOLE ANSWER}}}}
"""
    )
    job = at_work.submit("go", server)
    at_work.wait_state(job.view().root_id, "parked")
    wait_for("it has said it", lambda: job.agents()[0].turns == 2)
    job.cancel()
    assert (job.view().state, job.view().text) == ("cancelled", "THE WHOLE ANSWER")


def test_a_server_that_ignores_that_no_tools_may_be_called_cannot_hold_an_agent(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: deaf
obeys_tool_choice: false
rules:
  - reply: {text: "found {turn}", tools: [{name: LS, input: {path: .}}]}
"""
    )
    view = at_work.submit("go", server, max_turns=3).wait(30)
    assert (view.state, view.text, view.turns) == ("completed", "found 3", 4)
    assert server.stats()["requests"] == 4


def test_many_refusals_with_a_time_to_come_back_lose_nobody(at_work: Fleet) -> None:
    server = at_work.rehearse(
        "name: full\nfaults: [{kind: 429, times: 20, retry_after: 0.01}]\nrules: [{reply: {text: fine}}]\n"
    )
    assert at_work.submit("hello", server).wait(120).text == "fine"


def test_calls_that_share_an_id_are_told_apart(at_work: Fleet) -> None:
    server = at_work.rehearse(
        """
name: twice
rules:
  - {when: {prompt: ^part one}, reply: {text: ONE}}
  - {when: {prompt: ^part two}, reply: {text: TWO}}
  - when: {turn: 0}
    reply:
      tools:
        - {name: Agent, id: call_0, input: {description: a, prompt: part one}}
        - {name: Agent, id: call_0, input: {description: b, prompt: part two}}
  - {when: {turn: 1}, reply: {tools: [{name: Agent, id: call_0, input: {description: c, prompt: part two}}]}}
  - {reply: {text: "{last_result}"}}
"""
    )
    job = at_work.submit("go", server)
    view = job.wait(30)
    assert view.state == "completed" and "TWO" in view.text
    assert sorted(agent.text for agent in job.agents()[1:]) == ["ONE", "TWO", "TWO"]


# -- going on --------------------------------------------------------------------------------------------------------------


def test_agents_that_wake_each_other_do_so_a_limited_number_of_times(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False, max_resumes=2)
    world.start("a", teammate=False)
    receiver = Receiver(world.ids["a"], "a", "")

    def outgoing(sender: str) -> OutgoingMessage:
        return OutgoingMessage(
            job=world.job_id, sender=sender, name="x", kind="message", body="again", token=secrets.token_hex(8)
        )

    for _ in range(2):
        world.end("a")
        store.mail.send(outgoing(world.root), [receiver])
        world.lengths["a"] = store.agents.get(world.ids["a"]).length
        world.run("a")
    world.end("a")
    with pytest.raises(Exception, match="max_resumes"):
        store.mail.send(outgoing(world.root), [receiver])
    # A person may always ask once more.
    store.mail.send(outgoing(world.job_id), [receiver])
    assert world.state("a") == "queued"


def test_a_job_that_goes_on_has_its_time_limit_again(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False, timeout_seconds=1_000)
    first = float(store.keyspace.client.hget(store.keyspace.key("job", world.job_id), "deadline"))
    world.end("root")
    token = secrets.token_hex(8)
    mail = OutgoingMessage(
        job=world.job_id, sender=world.job_id, name="user", kind="message", body="go on", token=token
    )
    store.mail.send(mail, [Receiver(world.root, "root", "")])
    world.run("root")
    deadline = world.claims["root"].deadline
    assert deadline is not None and deadline > first
    assert store.keyspace.client.zscore(store.keyspace.key("deadlines"), world.job_id) == deadline
