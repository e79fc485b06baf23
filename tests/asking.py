"""Agents of a stored job that ask the governor for slots, a clock that goes as the test says, and a server that grants what it likes."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from swarm.agent.entries import Parked, Prompt
from swarm.agent.journaled import Condition
from swarm.capabilities.governor.view import LimitClass, read_classes
from swarm.models.limits import RateLimits
from swarm.store.slots import CallEnd, Ending, InLine, Slot, SlotReservation
from swarm.store.store import Store
from swarm.store.values import Claim, GoOn, Signals
from tests.fleet import Fleet
from tests.job_world import StoredJob

CLASS = "anthropic/1234/sonnet-5-5"
RESERVATION = SlotReservation(CLASS, 100)


class Asking:
    """Agents of one job that ask for slots, by number."""

    def __init__(self, store: Store, fleet: Fleet, agents: int, *, weight: int = 1) -> None:
        self.store = store
        self.world = StoredJob(store, fleet, weight=weight, max_running=1_000)
        root = self.world.take_claim(self.world.spec.agent_id)
        specs = {f"c{n}": self.world.child_spec(f"c{n}") for n in range(agents)}
        assert isinstance(self.world.spawn_all(root, 1, specs), Signals)
        self.ids = [spec.agent_id for spec in specs.values()]
        self.claims = {agent_id: self.world.take_claim(agent_id) for agent_id in self.ids}
        self.lengths = dict.fromkeys(self.ids, 0)

    def ask(self, number: int, reservation: SlotReservation = RESERVATION) -> Slot | InLine | None:
        return self.store.rates.ask_for_slot(self.claims[self.ids[number]], reservation)[0]

    def park(self, number: int) -> Signals | GoOn:
        agent_id, condition = self.ids[number], Condition(slot=True)
        answer = self.store.agents.park(
            self.claims[agent_id], self.lengths[agent_id] + 1, Parked(condition=condition), condition
        )
        self.lengths[agent_id] += isinstance(answer, Signals)
        return answer

    def end(self, number: int, ending: Ending = "ok", *, limits: RateLimits = RateLimits(), after: float = 0.0) -> None:  # noqa: B008
        agent_id = self.ids[number]
        call = CallEnd(CLASS, ending, 100, 50, after=after, limits=limits)
        self.lengths[agent_id] += 1
        self.store.journals.append(self.claims[agent_id], self.lengths[agent_id], [Prompt(text="said")], call=call)

    def holds(self, number: int) -> bool:
        """Whether it has a slot."""
        slots = self.store.keyspace.key("class", CLASS, "slots")
        return self.store.keyspace.client.zscore(slots, self.ids[number]) is not None

    def take(self, number: int) -> Claim:
        """A worker takes the agent, which has been woken."""
        claim = self.claims[self.ids[number]] = self.world.take_claim(self.ids[number])
        return claim

    def state(self, number: int) -> str:
        return self.store.agents.get(self.ids[number]).state


def read_class(store: Store) -> LimitClass:
    (found,) = read_classes(store)
    return found


def state_limits(requests: int, left: int | None = None) -> RateLimits:
    return RateLimits(requests, 10_000_000, 10_000_000, requests if left is None else left, 10_000_000, 10_000_000)


_TIMES = ("t", "hold", "try", "cut", "grown", "seen", "since", "refused_at")


def pass_time(store: Store, seconds: float) -> None:
    """Let so many seconds pass for the governor: all times that it has noted are earlier."""
    client, key = store.keyspace.client, store.keyspace.key
    account = json.loads(client.get(key("class", CLASS)))
    client.set(key("class", CLASS), json.dumps({**account, **{name: account[name] - seconds for name in _TIMES}}))
    earlier = client.pipeline(transaction=False)
    earlier.zincrby(key("governor", "due"), -seconds, CLASS)
    for line in client.keys(key("class", CLASS, "line", "*")):
        for agent_id in client.zrange(line, 0, -1):
            earlier.zincrby(line, -seconds, agent_id)
    earlier.execute()


def forget_class(store: Store) -> None:
    """Nobody has asked yet, and nobody waits."""
    client, key = store.keyspace.client, store.keyspace.key
    client.delete(key("governor", "due"), *client.keys(key("class", CLASS + "*")))


@dataclass
class Run:
    """What became of a number of requests."""

    seconds: float = 0.0
    replies: int = 0
    refused: int = 0


def play(
    asking: Asking,
    requests: int,
    refuse: Callable[[int, float], float | None],
    *,
    seconds: float = 1e6,
    reply: float = 0.3,
) -> Run:
    """All agents ask until there are so many replies, or so many seconds have passed.

    `refuse` has a request's number and its time by the governor's clock; its answer is a refusal's `retry-after`, or None for a reply.
    A refusal takes no time.
    """
    store, run, number = asking.store, Run(), 0
    forget_class(store)
    began = time.monotonic()
    slots, flying, ends = (
        store.keyspace.key("class", CLASS, "slots"),
        set[str](),
        list[tuple[float, str, float | None]](),
    )
    for agent in range(len(asking.ids)):
        asking.ask(agent)
    while run.replies < requests and run.seconds < seconds:
        for agent_id in sorted(set(store.keyspace.client.zrange(slots, 0, -1)) - flying):
            flying.add(agent_id)
            number += 1
            after = refuse(number, run.seconds + time.monotonic() - began)
            heapq.heappush(ends, (run.seconds + (reply if after is None else 0.02), agent_id, after))
        _, due = store.rates.serve_classes()
        if set(store.keyspace.client.zrange(slots, 0, -1)) - flying:
            continue
        moments = ([ends[0][0]] if ends else []) + ([run.seconds + max(due, 0.01)] if due is not None else [])
        pass_time(store, min(moments) - run.seconds)
        run.seconds = min(moments)
        while ends and ends[0][0] <= run.seconds:
            _, agent_id, after = heapq.heappop(ends)
            flying.discard(agent_id)
            agent = asking.ids.index(agent_id)
            asking.end(agent, "ok" if after is None else "limited", after=after or 0.0)
            run.replies += after is None
            run.refused += after is not None
            asking.ask(agent)
    return run
