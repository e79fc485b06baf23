"""Jobs that are steps of another application's canvases, while the workers of both fleets are killed: each step once in effect.

Tests of swarm/client/canvas.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from celery import chain, chord, group
from celery.canvas import Signature, maybe_signature
from celery.result import AsyncResult

import swarm
from swarm.client.canvas import job_id_of
from swarm.core.errors import UnknownAgent
from tests.fleet import Fleet
from tests.foreign import Foreign

SCENARIO = """
name: foreign
rules:
  - when: {prompt: "say (?P<what>.*)"}
    reply: {text: "said {what}", latency_seconds: [0.2, 1.5]}
"""
PATIENCE_SECONDS = 90.0


class World:
    """Both fleets, and what was started in them."""

    def __init__(self, fleet: Fleet, shop: Foreign) -> None:
        self.fleet, self.shop = fleet, shop
        self.model = fleet.rehearse(SCENARIO).url
        self.canvases: list[AsyncResult] = []
        self.steps: dict[str, str] = {}
        """By task id of each step what it must return."""

    def start_fleet_worker(self) -> None:
        self.fleet.start_worker(3, SWARM_BROKERS=f'{{"shop": "{self.shop.broker}"}}')

    def task(self, name: str, *args: Any) -> Signature:
        return self.shop.app.signature(f"bookshop.{name}", args=args)

    def step(self, prompt: str, said: str) -> Signature:
        made = maybe_signature(
            swarm.signature(prompt, workspace=self.fleet.workspace, base_url=self.model), app=self.shop.app
        )
        self.steps[made.freeze().id] = said
        return made

    def start(self, number: int) -> None:
        """A chain with a job in the middle, and a chord of two jobs with a job as its body."""
        middle = self.step("say {result}", f'said {{"number": {number}}}')
        self.canvases.append(chain(self.task("fetch", number), middle, self.task("keep"), app=self.shop.app).delay())
        header = group([self.step(f"say {n}", f"said {n}") for n in ("a", "b")], app=self.shop.app)
        body = self.step("say {result}", 'said ["said a", "said b"]')
        self.canvases.append(chord(header, body, app=self.shop.app).delay())

    def blows(self, rounds: int, dice: random.Random) -> Iterator[str]:
        """Kill, and start anew; in between everything goes on."""
        for _ in range(rounds):
            for blow in dice.sample(["shop", "fleet", "child"], 3):
                time.sleep(dice.uniform(0.2, 2.0))
                match blow:
                    case "shop":
                        self.shop.kill_workers()
                        self.shop.start_worker(self.fleet, 2)
                    case "fleet":
                        self.fleet.workers[-1].kill()
                        self.start_fleet_worker()
                    case "child":
                        dice.choice(self.fleet.workers[-1].children()).kill()
                yield blow

    def began(self, step_id: str) -> bool:
        try:
            return bool(self.fleet.swarm.job(job_id_of(step_id)))
        except UnknownAgent:
            return False


def _play(rounds: int, seed: int, per_blow: int = 2) -> None:
    dice = random.Random(seed)
    with closing(Foreign()) as shop, closing(Fleet()) as fleet:
        world = World(fleet, shop)
        world.start_fleet_worker()
        shop.start_worker(fleet, 2)
        world.start(0)
        for n, _ in enumerate(world.blows(rounds, dice)):
            for each in range(per_blow):
                world.start(1 + n * per_blow + each)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(one.ready() for one in world.canvases) and time.monotonic() < deadline:
            time.sleep(0.2)
        results = {step: AsyncResult(step, app=shop.app) for step in world.steps}
        # Every step that has begun has its one result, made of one job, which nobody had to make twice.
        wrong = {
            step: (found.state, found.result)
            for step, found in results.items()
            if world.began(step) and (found.state, found.result) != ("SUCCESS", world.steps[step])
        }
        assert not wrong, (wrong, shop.logs()[-3000:])
        jobs = fleet.swarm.jobs(1_000)
        assert {job.id for job in jobs} <= {job_id_of(step) for step in world.steps}
        assert all(job.state == "completed" for job in jobs)
        # What a killed worker had taken from the list and not yet noted, Celery's transport loses; not a step of ours.
        unfinished = [one.id for one in world.canvases if not one.ready()]
        assert len(unfinished) <= rounds, (unfinished, shop.logs()[-3000:])
        assert all(one.successful() for one in world.canvases if one.ready())
        # A task that was delivered twice has one id, and one effect for whoever looks at that.
        assert shop.noted()["keep"] >= len(world.canvases) // 2 - len(unfinished)
        print(
            f"{len(world.canvases)} canvases, {len(world.steps)} steps, {len(unfinished)} lost by the broker, "
            f"{len(shop.ledger()) - shop.noted().total()} deliveries again"
        )


@pytest.mark.long
@pytest.mark.timeout(180)
def test_each_step_is_done_once_while_both_fleets_are_killed() -> None:
    _play(1, seed=3)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_minutes_of_kills_lose_no_step(seed: int) -> None:
    _play(12, seed=seed)
