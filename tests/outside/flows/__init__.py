"""Workflows as a team would keep them in a module that workers have."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from swarm import Flow, tool, workflow

INFLUENCES: list[str] = []


class Verdict(BaseModel):
    """What a sceptic says."""

    real: bool


@tool(effects="idempotent")
def file_issue(title: str) -> str:
    """File an issue."""
    return f"#{len(title)}"


@workflow
async def review(flow: Flow, files: list[str]) -> dict[str, object]:
    """Review files, have sceptics vote on each finding, and file what is real."""
    flow.phase("review")

    async def look(file: str) -> list[str]:
        found = await flow.agent(f"Review {file}", label=file, retry=1)
        votes = await flow.parallel(*(flow.agent(f"Refute: {found}", returns=Verdict) for _ in range(2)))
        return [found] if all(one.ok and one.value.real for one in votes) else []

    results = await flow.pipeline(files, look, limit=3)
    flow.progress(len(results), of=len(files))
    good = [x for one in results if one.ok for x in one.value]
    flow.phase("file")
    filed = await flow.each(good, lambda x: flow.call(file_issue, x))
    checked = await flow.check("test -d .")
    return {"filed": filed, "bad": [str(one.error) for one in results if not one.ok], "checked": checked.passed}


@workflow(mode="all")
async def race(flow: Flow, seconds: float = 0.5) -> str:
    """Wait for a moment, for an agent that is too slow, and for another workflow."""
    await flow.sleep_until(flow.now() + timedelta(seconds=seconds))
    try:
        await flow.agent("Be slow", timeout=seconds)
    except TimeoutError:
        flow.log("too slow")
    inner = await flow.workflow("votes", {"rounds": 2})
    return f"{inner['said']} {flow.random.random() < 2}"


@workflow
async def votes(flow: Flow, rounds: int) -> dict[str, int]:
    """Ask again until enough have said so."""
    free = asyncio.Semaphore(2)

    async def ask(number: int) -> str:
        async with free:
            return await flow.agent("Say it")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(number)) for number in range(rounds)]
    return {"said": len([task.result() for task in tasks])}


@workflow
async def gate(flow: Flow) -> str:
    """Ask the person, and wait for an event."""
    answer = await flow.ask("Release it?", choices=["yes", "no"])
    try:
        told = await flow.event("frozen", timeout=0.3)
    except TimeoutError:
        told = "no freeze"
    return f"{answer}, {told}"


@workflow
async def gates(flow: Flow, events: list[str]) -> list[str]:
    """Ask the person for two answers and wait for events, all at once. The first event stops the wait for the others."""
    asked = [asyncio.ensure_future(flow.ask(f"Release {part}?", choices=["yes", "no"])) for part in ("a", "b")]
    told = [asyncio.ensure_future(flow.event(event)) for event in events]
    done, late = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
    for one in late:
        one.cancel()
    return [*(await asyncio.gather(*asked)), *(one.result() for one in done)]


@workflow
async def relay(flow: Flow, name: str, task: dict[str, Any]) -> Any:
    """Run another workflow."""
    return await flow.workflow(name, task)


@workflow
async def survey(flow: Flow, path: str) -> list[Any]:
    """Have an agent look at each line of a file."""
    done = await flow.map(path, "Judge {title}", returns=Verdict, limit=4)
    return [one.value.real if one.ok else str(one.error) for one in done]


@workflow
async def pick(flow: Flow) -> dict[str, object]:
    """Let agents write one file, each in its own copy, and keep the second one's."""
    names = ("one", "two", "three")
    tries = [flow.agent(f"Write {name}", name=name, isolation="worktree", merge=False) for name in names]
    done = await flow.parallel(*tries)
    untouched = not (await flow.check("test -e out.txt")).passed
    merged = await flow.merge("two")
    [clash] = await flow.parallel(flow.merge("one"))
    kept = await flow.check("cat out.txt")
    await flow.merge("three", strategy="theirs")
    last = await flow.check("cat out.txt")
    return {
        "done": [one.ok for one in done],
        "untouched": untouched,
        "merged": merged,
        "clash": "" if clash.ok else str(clash.error),
        "kept": kept.output,
        "last": last.output,
    }


@workflow
async def frugal(flow: Flow, usd: float, agents: int) -> dict[str, object]:
    """Spend an allowance on agents, and then start one without it."""
    with flow.allowance("looks", usd) as looks:
        await flow.agent("Say it first")
        rest = looks.left_usd
        results = await flow.parallel(*(flow.agent(f"Say it {number}") for number in range(agents)))
    last = await flow.agent("Say it at the end")
    failed = [str(one.error) for one in results if not one.ok]
    return {"rest": rest, "left": looks.left_usd, "failed": failed, "last": last}
