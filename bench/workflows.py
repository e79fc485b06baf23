"""What a workflow of many agents costs: its wakes, its program, its process's memory."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psutil

from bench.lives import WIDE, claim_root, run_segment
from bench.measure import Report, quantile, spread
from bench.neutral import neutral
from swarm import Job
from swarm.agent.entries import Advanced, ToolFinished
from swarm.definitions.own.workflow import declare_workflow
from swarm.definitions.workflow_files import make_definition
from swarm.models.anthropic import AnthropicModel
from swarm.workflows.desk import Desk
from swarm.workflows.front_ends import make_program
from swarm.workflows.native import NativeProgram
from swarm.workflows.trial import WorkflowTrial
from tests.fleet import Fleet, Worker
from tests.outside import storms

AGENTS = (250, 500, 1_000)
RESULTS = (2_500, 10_000)
CALLS = 10_000
WOKEN = 1_000
MIB = 1 << 20

_PYTHON = "len(await parallel(*[agent(f'Do {one}') for one in range(args)]))"
_SCRIPT = """export const meta = { name: "wide", description: "Many agents." };
const all = Array.from({ length: args }, (_, one) => () => agent(`Do ${one}`));
let count = 0;
for (let from = 0; from < all.length; from += 4096) count += (await parallel(all.slice(from, from + 4096))).length;
return count;
"""


def run(report: Report, chosen: Namespace) -> None:
    """Replays alone, then workflows of agents on one worker. A wake is a segment of the workflow: from its claim to its park."""
    for language, make in (
        ("native", _native),
        ("Python", _sandboxed(_PYTHON, ".py")),
        ("JavaScript", _sandboxed(_SCRIPT, ".js")),
    ):
        few, many = (_replay(make, count) for count in RESULTS)
        report.note(
            f"replay in {language}, CPU: {few * 1e3:.0f} ms for {RESULTS[0]:,} results, {many * 1e3:.0f} for {RESULTS[1]:,}"
        )
        report.figure(
            f"a result of {RESULTS[1]:,}, against one of {RESULTS[0]:,}, {language}", many / few / 4, "×", target=1.5
        )
    with neutral() as server, closing(Fleet(tools="tests.outside.storms")) as fleet:
        walls, spent = _wakes(fleet, server.url, WOKEN)
        report.figure(f"a wake of {WOKEN:,} agents that end eight at a time, p50", walls * 1e3, " ms", target=25)
        report.note(f"the same, CPU of the process {spent * 1e3:.1f} ms")
        root = os.getcwd()
        worker = fleet.start_worker(2, PYTHONPATH=root)
        _finish(_submit(fleet, server.url, "wide", agents=20), 20)
        costs, sizes = [], []
        for count in AGENTS:
            job = _submit(fleet, server.url, "wide", agents=count)
            _finish(job, count)
            segments = _segments(job)
            costs.append(sum(segments) / count)
            sizes.append(_largest(worker))
            report.note(
                f"{count} agents: {len(segments)} segments, {spread(segments, ' ms', 1e3)}; {costs[-1] * 1e3:.2f} ms an agent"
            )
        report.figure("a wake of 1,000 agents, p50", statistics.median(segments) * 1e3, " ms", target=25)
        report.note(f"the same, p90 {quantile(segments, 0.9) * 1e3:.0f} ms")
        report.figure("the workflow's time an agent, of 1,000 against 250", costs[-1] / costs[0], "×", target=1.5)
        began = time.monotonic()
        _finish(_submit(fleet, server.url, "calls", count=CALLS), CALLS * (CALLS + 1) // 2)
        report.note(f"{CALLS:,} calls of an own function in one run: {time.monotonic() - began:.0f} s")
        before = _largest(worker)
        for _ in range(5):
            _finish(_submit(fleet, server.url, "wide", agents=250), 250)
        report.note(f"largest process of the pool: {', '.join(f'{size:.0f}' for size in sizes)} MiB, then {before:.0f}")
        report.figure("growth of it by five more runs of 250 agents", _largest(worker) - before, " MiB", target=4)


def _native(desk: Desk, count: int) -> Any:
    return NativeProgram(storms.wide, desk, f'{{"agents": {count}}}')


def _sandboxed(source: str, suffix: str) -> Callable[[Desk, int], Any]:
    definition = make_definition(source, suffix, "wide", "wide")
    return lambda desk, count: make_program(definition, desk, str(count))


def _replay(make: Callable[[Desk, int], Any], count: int) -> float:
    """The processor's time of one replay of that many results, the interpreter's among it, in seconds."""
    trial = WorkflowTrial(lambda desk: make(desk, count))
    while True:
        gc.collect()
        began = _cpu()
        replay = trial.wake()
        replay.program.close()
        if replay.program.ended is not None:
            break
        for call in list(trial.open):
            trial.append(ToolFinished(tool_use_id=call, text="done"))
    spent = _cpu() - began
    assert replay.program.ended.value == count, replay.program.ended
    assert sum(len(entry.calls) for entry in trial.lived if isinstance(entry, Advanced)) == count
    return spent


def _cpu() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _wakes(fleet: Fleet, url: str, count: int) -> tuple[float, float]:
    """The median of the wall and the processor's time of a segment of this process, which wakes for eight ended agents, in seconds."""
    declare_workflow(storms.wide)
    model, agents = AnthropicModel.rehearsing(fleet.settings, url), fleet.swarm.store.agents
    job = _submit(fleet, url, "wide", agents=count)
    spawned: dict[str, str] = {}
    while len(spawned) < count:
        spawned = run_segment(fleet, claim_root(fleet, job), model)[1].spawned
    children, walls, spent = list(spawned.values()), [], []
    for first in range(0, count - 8, 8):
        for child in children[first : first + 8]:
            agents.cancel(child, "it is enough")
        claim = claim_root(fleet, job)
        began, before = time.perf_counter(), time.process_time()
        run_segment(fleet, claim, model)
        walls.append(time.perf_counter() - began)
        spent.append(time.process_time() - before)
    job.cancel()
    return statistics.median(walls), statistics.median(spent)


def _submit(fleet: Fleet, url: str, name: str, **given: int) -> Job:
    task = "{" + ", ".join(f'"{key}": {value}' for key, value in given.items()) + "}"
    return fleet.swarm.submit(task, agent=name, workspace=fleet.workspace, base_url=url, limits=WIDE, allow=["add"])


def _finish(job: Job, value: int) -> None:
    view = job.wait(900)
    assert view.state == "completed" and view.data == value, (view.state, view.reason, view.data)


def _segments(job: Job) -> list[float]:
    """How long each segment of the workflow took, in seconds, by the server's clock."""
    root, began, found = job.view().root_id, 0.0, []
    for event in job.follow(idle_seconds=0.2):
        if event is None or event.agent_id != root:
            continue
        if event.kind == "running":
            began = event.at
        elif began and event.kind in ("parked", "completed"):
            found.append(event.at - began)
            began = 0.0
    return found


def _largest(worker: Worker) -> float:
    return max(float(psutil.Process(child.pid).memory_full_info().pss) / MIB for child in worker.children())
