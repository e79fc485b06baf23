"""Jobs as steps of the canvas of another Celery application, which has a broker, results and workers of its own.

Tests of swarm/client/canvas.py, tasks/callbacks.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.canvas import Signature, maybe_signature

import swarm
from swarm import Job, JobFailed, Limits
from swarm.client.canvas import fill, install, job_id_of
from swarm.core.errors import ConfigurationError, UnknownBroker
from tests.fleet import Fleet
from tests.foreign import Foreign
from tests.waiting import wait_for

SCENARIO = """
name: canvas
rules:
  - when: {prompt: "wait"}
    reply: {text: late, latency_seconds: 120}
  - when: {prompt: "fail"}
    reply: {text: "no", stop_reason: refusal}
  - when: {prompt: "say (?P<what>.*)"}
    reply: {text: "said {what}"}
"""


class World:
    """A fleet, and a shop whose canvases have jobs as steps."""

    def __init__(self) -> None:
        # Priorities as Celery's pages describe them.
        priorities = {"priority_steps": list(range(10)), "sep": ":", "queue_order_strategy": "priority"}
        self.shop = Foreign(prefix="the-shop:", **priorities)
        self.fleet = Fleet()
        self.model = self.fleet.rehearse(SCENARIO).url
        self.fleet.start_worker(2, SWARM_BROKERS=json.dumps({"shop": self.shop.broker}))
        self.shop.start_worker(self.fleet)

    def task(self, name: str, *args: Any, **options: Any) -> Signature:
        return self.shop.app.signature(f"bookshop.{name}", args=args, **options)

    def job(self, prompt: str, **order: Any) -> Signature:
        made = swarm.signature(prompt, workspace=self.fleet.workspace, base_url=self.model, **order)
        return maybe_signature(made, app=self.shop.app)

    def close(self) -> None:
        self.fleet.close()
        self.shop.close()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with closing(World()) as world:
        yield world


def job_of(world: World, step_id: str) -> Job:
    """The job of a step that says it has one: it says so first."""
    swarm, job_id = world.fleet.swarm, job_id_of(step_id)
    wait_for("the step's job is there", lambda: swarm.store.jobs.exists(job_id))
    return swarm.job(job_id)


def test_a_job_in_the_middle_of_a_chain_takes_the_result_before_and_gives_its_own(world: World) -> None:
    steps = chain(world.task("fetch", 7), world.job("say {result}"), world.task("keep"), app=world.shop.app)
    last = steps.apply_async()
    assert world.shop.wait(last) == "SUCCESS", last.result
    assert last.get(timeout=5) == 'said {"number": 7}'
    assert last.parent.get(timeout=5) == 'said {"number": 7}'
    job = world.fleet.swarm.job(job_id_of(last.parent.id)).view()
    assert job.state == "completed"


@pytest.mark.parametrize("priority", [0, 3, 9])
def test_a_step_comes_back_to_the_list_of_its_priority(world: World, priority: int) -> None:
    last = chain(world.job("say it"), world.task("keep"), app=world.shop.app).apply_async(priority=priority)
    assert world.shop.wait(last) == "SUCCESS", last.result


def test_what_cannot_run_as_a_step_is_refused_at_once(world: World) -> None:
    with pytest.raises(ConfigurationError, match="accept_content must have json"):
        install(Celery("pickled", changes={"accept_content": ["pickle"]}), broker="shop")
    task = install(Celery("own", broker="memory://"), broker="shop", settings=world.fleet.settings)
    with pytest.raises(ConfigurationError, match="step of a canvas"):
        task(prompt="go", workspace=str(world.fleet.workspace))


def test_a_step_whose_worker_dies_as_its_state_is_set_has_its_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = install(Celery("dies", broker=world.shop.broker), broker="shop", settings=world.fleet.settings)
    monkeypatch.setattr(type(task._get_current_object()), "update_state", lambda *_, **__: 1 / 0)
    task.push_request(id="step-1", called_directly=False, is_eager=False, args=(), kwargs={})
    with pytest.raises(ZeroDivisionError):
        task.run(prompt="wait for long", workspace=str(world.fleet.workspace), base_url=world.model)
    job = world.fleet.swarm.job(job_id_of("step-1"))
    job.cancel("enough")
    assert job.wait(30).state == "cancelled"
    # Its callback waits for an application that has ended.
    world.fleet.swarm.store.keyspace.client.zrem("swarm:callbacks:shop", job.id)


def test_a_message_too_long_to_come_back_fails_its_step_and_names_what_follows(world: World) -> None:
    steps = chain(world.job("say it"), world.task("keep", "x" * 600_000), app=world.shop.app)
    first = steps.apply_async().parent
    assert world.shop.wait(first) == "FAILURE"
    assert "the message of swarm.job, with all that follows it, has 586 KiB" in str(first.result)
    assert "on_end" not in str(first.result)


def test_nobody_waits_for_a_job_in_a_process(world: World) -> None:
    # The shop's worker has one process.
    waiting = [world.job("wait for long").apply_async() for _ in range(3)]
    for step in waiting:
        world.shop.wait(step, "SWARM")
        assert step.info == {"job_id": job_id_of(step.id)}
    assert world.shop.wait(world.task("fetch", 1).apply_async()) == "SUCCESS"
    for step in waiting:
        job_of(world, step.id).cancel("no longer wanted")
    # Whoever cancels the job fails the step.
    for step in waiting:
        assert world.shop.wait(step) == "FAILURE"
        with pytest.raises(JobFailed, match="cancelled: no longer wanted") as failure:
            step.get(timeout=5)
        assert failure.value.job_id == job_id_of(step.id)


def test_jobs_as_members_of_a_group_and_as_the_body_of_a_chord(world: World) -> None:
    def header() -> Signature:
        return group([world.job("say a"), world.task("fetch", 2), world.job("say b")], app=world.shop.app)

    last = chord(header(), world.job("say {result}"), app=world.shop.app).apply_async()
    assert world.shop.wait(last) == "SUCCESS", last.result
    assert last.get(timeout=5) == 'said ["said a", {"number": 2}, "said b"]'
    then = chain(header(), world.task("keep"), app=world.shop.app).apply_async()
    assert world.shop.wait(then) == "SUCCESS", then.result
    assert then.get(timeout=5) == ["said a", {"number": 2}, "said b"]


def test_a_job_that_fails_fails_its_step_and_calls_its_errbacks(world: World) -> None:
    before = world.shop.noted()
    step = world.job("fail").on_error(world.task("rejection"))
    last = chain(step, world.task("keep"), app=world.shop.app).apply_async()
    assert world.shop.wait(last.parent) == "FAILURE"
    assert isinstance(last.parent.result, JobFailed) and last.parent.result.state == "failed"
    assert world.shop.wait(last) == "FAILURE"
    wait_for("the errback has run", lambda: world.shop.noted()["rejection"] == before["rejection"] + 1)
    assert world.shop.noted()["keep"] == before["keep"]


def test_a_member_that_fails_fails_the_chord(world: World) -> None:
    header = group([world.job("say a"), world.job("fail")], app=world.shop.app)
    last = chord(header, world.task("keep"), app=world.shop.app).apply_async()
    assert world.shop.wait(last) == "FAILURE"
    assert "failed" in str(last.result)


def test_a_step_that_is_revoked_cancels_its_job(world: World) -> None:
    step = world.job("wait for long").apply_async()
    world.shop.wait(step, "SWARM")
    job = job_of(world, step.id)
    step.revoke()
    assert job.wait(30).state == "cancelled"
    assert world.shop.wait(step, "REVOKED") == "REVOKED"


def test_any_task_can_follow_a_job_however_it_ends(world: World) -> None:
    submit = world.fleet.swarm.submit
    given = {"workspace": world.fleet.workspace, "base_url": world.model, "broker": "shop"}
    job = submit("say it", on_end=world.task("told", 1), **given)
    assert job.wait(30).state == "completed"
    submit("fail", on_end=world.task("told", 2), **given)
    chained = chain(world.task("fetch", 3, immutable=True), world.task("keep"), app=world.shop.app)
    submit("say more", on_end=chained, **given)

    def noted() -> bool:
        found = [what for _, _, what in world.shop.ledger()]
        return all(
            any(text in what for what in found) for text in ("1: completed said it", "2: failed", "{'number': 3}")
        )

    wait_for("all three were told", noted)
    # A job that goes on has been told of already.
    before = world.shop.noted()["told"]
    job.send("root", "say again")
    wait_for("it has gone on", lambda: job.view().ended and job.view().turns == 2)
    assert world.shop.wait(world.task("fetch", 4).apply_async()) == "SUCCESS"
    assert world.shop.noted()["told"] == before
    client = world.fleet.swarm.store.keyspace.client
    wait_for("all are published", lambda: client.zcard("swarm:callbacks:shop") == 0)


def test_what_cannot_be_published_is_refused_at_once(world: World) -> None:
    submit, order = world.fleet.swarm.submit, {"workspace": world.fleet.workspace}
    task = world.task("told", 1)
    with pytest.raises(UnknownBroker, match=r"'shops' \(known: shop\).*SWARM_BROKERS"):
        submit("x", on_end=task, broker="shops", **order)
    with pytest.raises(ConfigurationError, match="needs `broker`"):
        submit("x", on_end=task, **order)
    with pytest.raises(ConfigurationError, match="no JSON"):
        submit("x", on_end=world.task("told", object()), broker="shop", **order)
    with pytest.raises(ConfigurationError, match="KiB"):
        submit("x", on_end=world.task("told", "x" * 600_000), broker="shop", **order)
    with pytest.raises(ConfigurationError, match="a group or a chord"):
        submit("x", on_end=group([task, task], app=world.shop.app), broker="shop", **order)
    with pytest.raises(ConfigurationError, match="no option promt; did you mean prompt"):
        swarm.signature("x", workspace=".", promt="y", limits=Limits())


def test_a_result_takes_its_place_in_a_prompt_once() -> None:
    assert fill("Sum up {result} {x}", ("a {result}",)) == "Sum up a {result} {x}"
    assert fill("Sum up:", ([1, "ü"],)) == 'Sum up:\n\n[1, "ü"]'
    assert fill("Sum up {result}", ()) == "Sum up {result}"
