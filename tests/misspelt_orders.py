"""Calls that mypy must refuse: it checks this module as well, and where it finds nothing, the comment is an error of its own."""

from __future__ import annotations

from swarm import Limits, Swarm, signature
from swarm.client import aio
from swarm.client.order import Order


async def refuse(swarm: Swarm, asynchronous: aio.Swarm) -> None:
    """A misspelt option, and one of a wrong type, wherever a job is ordered."""
    swarm.submit("x", modle="haiku")  # type: ignore[call-arg]
    swarm.submit("x", priority="high")  # type: ignore[arg-type]
    swarm.submit("x", limits={"max_depth": 1})  # type: ignore[arg-type]
    swarm.submit()  # type: ignore[call-arg]
    swarm.map("x", ["a"], modle="haiku")  # type: ignore[call-arg]
    swarm.map("x", ["a"], idempotency_key="one")  # type: ignore[call-arg]
    swarm.map("x", ["a"], retries="often")  # type: ignore[arg-type]
    signature("x", modle="haiku")  # type: ignore[call-arg]
    signature("x", network="yes")  # type: ignore[arg-type]
    signature("x", broker="shop")  # type: ignore[call-arg]
    await asynchronous.submit("x", modle="haiku")  # type: ignore[call-arg]
    await asynchronous.submit("x", tries="3")  # type: ignore[arg-type]
    await asynchronous.map("x", ["a"], modle="haiku")  # type: ignore[call-arg]
    Order("x", modle="haiku")  # type: ignore[call-arg]


async def accept(swarm: Swarm, asynchronous: aio.Swarm) -> None:
    """What is right is taken, and what is returned is known."""
    print(swarm.submit("x", mode="plan", allow=["Edit"], limits=Limits(max_depth=1), workspace="/tmp").id)
    print(swarm.map("x", ["a", {"b": 1}], batch=True, retries=2).id)
    print(signature("x", workspace="/tmp", check="true", webhook="https://example.org").task)
    print((await asynchronous.submit("x", title="y")).id, (await asynchronous.map("x", ["a"])).id)
