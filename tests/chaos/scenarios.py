"""The scenarios of the report: each is a plan and the Redis that it needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos.campaign import Campaign
from tests.chaos.crashing_worker import Order
from tests.chaos.ledger import OUTSIDE, Charges
from tests.chaos.plan import EVERYWHERE, Plan, Talk, Tree
from tests.chaos.section import Section
from tests.chaos.storming import MODULE, Storm
from tests.redis_servers import Group, OwnServer, SmallDiskServer, TlsServer, can_mount

REDIS_SERVER = "redis-server"
_SMALL = Tree(depth=2, fanout=4, steps=2, think_ms=250)
_TALK = Talk(fanout=6, messages=600, batch=10, think_ms=100)

FLEET = Plan(
    name="fleet",
    what="trees and talks on one fleet, every blow that any fleet can take",
    works=(Tree(depth=3, fanout=6), Talk()),
    first=EVERYWHERE,
    rest_seconds=(1.0, 5.0),
    spare_one=True,
    # Finished jobs go soon, so that a slope of Redis' memory means something; so do the timers of Celery's finished tasks.
    settings={"retention_seconds": 60.0, "hard_limit_seconds": 300.0, "segment_seconds": 20.0},
)
TALK = Plan(
    name="talk",
    what="everybody writes to everybody while workers die and Redis goes",
    works=(_TALK,),
    first=EVERYWHERE,
    settings={"segment_seconds": 20.0},
)
SENTINEL = Plan(
    name="sentinel",
    what="a primary, a replica and a sentinel; the primary dies, or changes its role",
    works=(_SMALL, _TALK),
    first=("failover", "switch", "child"),
    kinds=("failover", "switch", "child", "worker", "drain", "cut"),
    rest_seconds=(1.0, 3.0),
    workers=2,
    # What the primary had not yet sent to its replica is done again.
    waive=("doubled:effect",),
)
TLS = Plan(
    name="tls",
    what="Redis behind TLS, with a certificate of an authority of its own",
    works=(_SMALL, _TALK),
    first=("redis", "cut", "child", "pause"),
    rest_seconds=(0.3, 1.5),
    workers=2,
)
DISK = Plan(
    name="disk",
    what="Redis' append-only file on a small disk that is filled up",
    works=(_SMALL, _TALK),
    first=("disk", "disk", "child"),
    kinds=("disk", "redis", "child", "worker", "drain"),
    rest_seconds=(0.5, 2.0),
    workers=2,
)
MEMORY = Plan(
    name="memory",
    what="Redis' memory at its limit, again and again, while workers die",
    works=(_SMALL, _TALK),
    first=("near", "full", "child"),
    kinds=("near", "full", "near", "full", "child", "worker", "drain"),
    rest_seconds=(0.5, 3.0),
    workers=2,
)
QUARANTINE = Plan(
    name="quarantine",
    what="in each tree one agent whose process dies whenever it would write down its first reply",
    works=(_SMALL,),
    first=("drain", "redis"),
    kinds=("worker", "drain", "redis", "cut"),
    rest_seconds=(2.0, 5.0),
    workers=2,
    poison=Order("append", "before", kind="assistant", prompt=" id=0.1.2", always=True),
)
THREADS = Plan(
    name="threads",
    what="workers with a pool of threads instead of processes",
    works=(_SMALL, _TALK),
    first=("worker", "drain", "redis"),
    kinds=("worker", "drain", "stop", "redis", "pause", "cut"),
    rest_seconds=(1.0, 3.0),
    workers=2,
    processes=4,
    pool="threads",
)
LEDGER = Plan(
    name="ledger",
    what="a tool of somebody's own charges cards; the bank's book must hold each call once",
    works=(Charges(),),
    first=(*EVERYWHERE, "child", "child", "worker"),
    rest_seconds=(0.5, 2.0),
    environment={
        "SWARM_TOOLS": "shop",
        "PYTHONPATH": os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parents[1])]),
    },
)
WORKFLOWS = Plan(
    name="workflows",
    what="workflows of 10 to 1,000 agents, with loops, failures, late agents, questions, events and moments",
    works=(Storm(10, 1), Storm(60, 2), Storm(250, 3), Storm(30, 4), Storm(1_000, 5)),
    first=EVERYWHERE,
    rest_seconds=(1.0, 5.0),
    settings={"tools": MODULE, "segment_seconds": 20.0},
    environment={"PYTHONPATH": str(OUTSIDE.parents[1])},
    job_seconds=1_200.0,
)
_ALL = (FLEET, TALK, SENTINEL, TLS, DISK, MEMORY, QUARANTINE, THREADS, LEDGER, WORKFLOWS)
PLANS: Mapping[str, Plan] = {plan.name: plan for plan in _ALL}


@dataclass(frozen=True)
class Setup:
    """The Redis of a scenario other than a fleet's own, and what this machine must have for it."""

    make: Callable[[str], OwnServer | Group]
    can: Callable[[], bool] = lambda: True
    lacks: str = ""


_SETUPS: Mapping[str, Setup] = {
    "sentinel": Setup(Group),
    "tls": Setup(TlsServer),
    "disk": Setup(SmallDiskServer, can_mount, "a user namespace for a small disk"),
}


def lacking(name: str) -> str:
    """What this machine lacks for a scenario; empty if nothing."""
    setup = _SETUPS.get(name)
    if setup is None:
        return ""
    if shutil.which(REDIS_SERVER) is None:
        return REDIS_SERVER
    return "" if setup.can() else setup.lacks


def play(plan: Plan, folder: Path) -> Section:
    """Run a scenario's plan, or another one of that name, and keep what its jobs left in `folder`."""
    setup = _SETUPS.get(plan.name)
    if setup is None:
        return Campaign(plan, folder).run()
    with closing(setup.make(REDIS_SERVER)) as server:
        if isinstance(server, OwnServer):
            server.start()
        return Campaign(plan, folder, server).run()


def lasting(name: str, seconds: float, seed: int) -> Plan:
    """A scenario's plan, its blows dealt for so long."""
    return replace(PLANS[name], seconds=seconds, seed=seed)
