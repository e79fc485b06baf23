"""Large workflows, for measuring and for chaos."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from swarm import Flow, tool, workflow


@tool(effects="idempotent")
def add(number: int) -> str:
    """Add one."""
    return str(number + 1)


@workflow
async def wide(flow: Flow, agents: int, parts: int = 1) -> int:
    """Run many agents at once, below one workflow or below several."""
    if parts > 1:
        inner = await flow.parallel(*(flow.workflow("wide", {"agents": agents // parts}) for _ in range(parts)))
        return sum(one.value for one in inner if one.ok)
    done = await flow.parallel(*(flow.agent(f"TREE depth=0 fanout=0 steps=0 id={one}") for one in range(agents)))
    return sum(one.ok for one in done)


@workflow
async def calls(flow: Flow, count: int) -> int:
    """Make many calls of an own function, a hundred at once."""
    done = await flow.pipeline(range(count), lambda number: flow.call(add, number, returns=int), limit=100)
    return sum(one.value for one in done if one.ok)


class Said(BaseModel):
    """What an agent of a storm answers, if it is asked for data."""

    got: int


@workflow(mode="all")
async def storm(flow: Flow, agents: int, seed: int) -> dict[str, Any]:
    """Use all that a workflow can, with about so many agents: loops in loops, failures, a late agent, a person, an event, time."""
    chance = random.Random(seed)
    flow.phase("look")

    async def look(number: int) -> int:
        got = _number(await flow.agent(f"ORDER {seed}.{number}", label=f"look {number}"))
        if number % 7 == 3:
            await flow.agent(f"FAIL {seed}.{number}", retry=1)
        if number % 5 == 1:
            inner = await flow.parallel(
                *(flow.agent(f"ORDER {seed}.{number}.{x}.{got}", returns=Said) for x in range(2))
            )
            got += sum(one.value.got for one in inner if one.ok)
        return got

    results = await flow.pipeline(range(look_count(agents)), look, limit=chance.randint(20, 60))
    found = [one.value for one in results if one.ok]
    flow.progress(len(found), of=len(results))
    try:
        await flow.agent(f"SLOW {seed}", timeout=1.0)
        late = False
    except TimeoutError:
        late = True
    flow.phase("wait")
    answer = await flow.ask(f"Go on with {seed}?", choices=["yes", "no"])
    told = "thaw" in await flow.event(f"thaw-{seed}")
    await flow.sleep_until(flow.now() + timedelta(seconds=0.5))
    flow.phase("end")
    added = await flow.each(range(5), lambda number: flow.call(add, number, returns=int))
    rounds = 0
    while rounds < 3:
        rounds += _number(await flow.agent(f"ORDER {seed} round {rounds} 1"))
    inner = await flow.parallel(*(flow.workflow(name, {"agents": 3, "seed": seed}) for name in ("gust", "squall")))
    return {
        "sum": sum(found),
        "failed": len(results) - len(found),
        "late": late,
        "answer": answer,
        "told": told,
        "added": sum(added),
        "rounds": rounds,
        "inner": [one.value if one.ok else str(one.error) for one in inner],
    }


@workflow
async def brief(flow: Flow, key: str) -> list[Any]:
    """Wait once in each way."""
    done = await flow.parallel(*(flow.agent(f"ORDER 1.{number}") for number in range(2)))
    added = await flow.call(add, 1, returns=int)
    answer = await flow.ask("Go on?", choices=["yes", "no"])
    told = "now" in await flow.event(key)
    await flow.sleep_until(flow.now() + timedelta(seconds=0.2))
    return [sum(_number(one.value) for one in done if one.ok), added, answer, told, await flow.agent("ORDER 1.2")]


def look_count(agents: int) -> int:
    """How many items a storm of about so many agents looks at: each takes an agent, and some take two or more."""
    return max(4, int(agents / 1.7) - 6)


def expected(agents: int, seed: int) -> tuple[dict[str, Any], int]:
    """What a storm returns, and how many agents it has, itself and its inner workflows among them."""
    total, failed, count = 0, 0, 1 + 1 + 3 + 2 * 4
    for number in range(look_count(agents)):
        count += 1
        if number % 7 == 3:
            failed += 1
            count += 2
            continue
        got = number
        if number % 5 == 1:
            got += 2 * number
            count += 2
        total += got
    value = {"sum": total, "failed": failed, "late": True, "answer": "yes", "told": True, "added": 15, "rounds": 3}
    return value | {"inner": [3, 3]}, count


def _number(text: str) -> int:
    return int(text.rsplit(" ", 1)[1])


GUST = """
async def blow(number):
    return (await agent(f"ORDER gust {number} {args['seed']} {number}"))
done = await parallel(*[blow(number) for number in range(args["agents"])])
await sleep(0.2)
len([one for one in done if one.ok])
"""
SQUALL = """export const meta = { name: "squall", description: "Asks agents, one after the other and at once." };
const first = await agent(`ORDER squall 0 ${args.seed} 0`);
const rest = await parallel([1, 2].map((number) => () => agent(`ORDER squall ${number} ${args.seed} ${number}`, { label: "s" })));
return [first, ...rest].filter(Boolean).length;
"""
SCENARIO = r"""
name: storm
rules:
  - {when: {prompt: "FAIL"}, reply: {stop_reason: refusal, latency_seconds: 0.1}}
  - {when: {prompt: "SLOW"}, reply: {text: LATE, latency_seconds: 90}}
  - {when: {prompt: 'ORDER \d+\.(?P<n>\d+)\.\d+'}, reply: {text: '{"got": {n}}', latency_seconds: [0.1, 0.5]}}
  - {when: {prompt: 'ORDER \d+\.(?P<n>\d+)$'}, reply: {text: 'GOT {n}', latency_seconds: [0.1, 0.5]}}
  - {when: {prompt: 'ORDER .* (?P<n>\d+)$'}, reply: {text: 'GOT {n}', latency_seconds: 0.1}}
"""


def scripts() -> Sequence[tuple[str, str]]:
    """The inner workflows in other languages, by the path that a workspace has them at."""
    return ((".swarm/workflows/gust.py", GUST), (".swarm/workflows/squall.js", SQUALL))
