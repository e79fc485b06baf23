"""Native workflows by replay: whoever dies between two entries, each call is made once, and the program stands where it stood.

Tests of swarm/workflows/desk.py, swarm/workflows/replay.py, swarm/workflows/loop.py, swarm/workflows/guard.py,
swarm/workflows/flow.py, swarm/workflows/native.py, swarm/workflows/results.py, swarm/workflows/trial.py,
swarm/workflows/front_ends.py, swarm/capabilities/workflows/kept.py, swarm/definitions/own/workflow.py, swarm/definitions/workflow_files.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import random
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from swarm import Flow, workflow
from swarm.agent import notes
from swarm.agent.decision import Advance, RunTools, Settle, SpawnAgents, next_action
from swarm.agent.entries import Advanced, Prompt, Spawned, Started, ToolFinished, ToolStarted
from swarm.agent.history import fold
from swarm.capabilities.workflows import kept
from swarm.capabilities.workflows.step import WorkflowStep
from swarm.capabilities.workflows.workflow_tool import WORKFLOW
from swarm.core.errors import CallFailed, ConfigurationError, WorkflowChanged
from swarm.core.records import Limits
from swarm.definitions.own.workflow import workflow_of
from swarm.definitions.sources import Unusable
from swarm.definitions.workflow_files import make_definition
from swarm.workflows.native import NativeProgram
from swarm.workflows.reuse import ends_all
from swarm.workflows.trial import TriedCall, WorkflowTrial, fail, try_workflow
from tests.unit.test_life import make_spec


class Verdict(BaseModel):
    real: bool


async def program(flow: Flow, n: int, seed: int) -> Any:
    """A random shape of what people use: gather, groups, semaphores, queues, timeouts, retries, equal prompts, cancelled work."""
    chance, free, out = random.Random(seed), asyncio.Semaphore(seed % 3 + 1), []

    async def item(i: int, deep: int) -> int:
        async with free:
            a = await flow.agent(f"look {i % max(1, n // 2)}", retry=1)
        if deep and chance.random() < 0.5:
            out.append((await asyncio.gather(item(i + 10, deep - 1), item(i + 20, 0)))[0])
        try:
            b = await flow.agent(f"check {i} {a[-3:]}")
        except CallFailed as error:
            b = f"E{error}"
        out.append((i, b, flow.random.random()))
        return len(out)

    flow.phase("items")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(item(i, 1)) for i in range(n)]
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> None:
        while True:
            x = await queue.get()
            out.append(("w", await flow.agent(f"work {x} after {len(out)}")))
            queue.task_done()

    workers = [asyncio.create_task(work()) for _ in range(2)]
    for x in range(3):
        queue.put_nowait(x)
    await queue.join()
    for worker in workers:
        worker.cancel()
    try:
        await flow.agent("too slow", timeout=5 + seed % 2)
    except TimeoutError:
        flow.log("gave it up")
    flow.phase("end")
    return [task.result() for task in tasks], out, str(flow.now()), str(flow.uuid())


PROGRAM = workflow(program)


def make(n: int, seed: int) -> Any:
    return lambda desk: NativeProgram(PROGRAM, desk, f'{{"n": {n}, "seed": {seed}}}')


def answer(call: TriedCall) -> str:
    fails = "check 2" in call.prompt or (call.id.endswith("3.0") and "look" in call.prompt)
    return fail("no") if fails else f"R:{call.prompt[:40]}"


def live(n: int, seed: int, *, deaths: float = 0.0) -> WorkflowTrial:
    """A whole life. Results come in an order and number of their own, the same for a seed; the process dies where `deaths` says."""
    order, dies, trial = random.Random(seed), random.Random(seed + 1), WorkflowTrial(make(n, seed))
    for _ in range(5_000):
        replay = trial.wake()
        if replay.program.ended is not None:
            assert not replay.program.ended.error, replay.program.ended.error
            return trial
        if dies.random() < deaths:
            continue  # what it held is gone; the next one replays
        ready = [call for call in trial.open.values() if call.prompt != "too slow"]
        if ready:
            for call in order.sample(ready, order.randint(1, min(4, len(ready)))):
                trial.settle(call, answer)
        else:
            assert replay.program.until is not None
            trial.now = replay.program.until
            trial.append(Advanced())
    raise AssertionError("it never ended")


def hold_for(seeds: range) -> None:
    for seed in seeds:
        n = seed % 5 + 1
        undisturbed, disturbed = live(n, seed), live(n, seed, deaths=0.5)
        assert undisturbed.lived == disturbed.lived
        calls = [call["id"] for entry in undisturbed.lived if isinstance(entry, Advanced) for call in entry.calls]
        assert len(calls) == len(set(calls))
        # A journal cut at any entry is continued by the next one that the program wrote itself.
        for cut in range(1, len(undisturbed.lived)):
            following = undisturbed.lived[cut]
            if isinstance(following, ToolFinished) or not following.calls + following.dropped + following.notes:
                continue
            again = WorkflowTrial(make(n, seed), lived=undisturbed.lived[:cut], now=following.at)
            again.wake()
            assert again.lived[cut] == following


def test_each_call_is_made_once_wherever_the_process_dies_and_wherever_its_journal_is_cut() -> None:
    hold_for(range(12))


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_it_holds_for_two_thousand_programs() -> None:
    hold_for(range(12, 2_012))


def test_a_kept_program_goes_on_as_a_new_one_would_and_only_in_its_own_journal() -> None:
    trial = WorkflowTrial(make(4, 3))
    kept = trial.wake()
    while kept.program.ended is None:
        assert kept.fits(trial.lived) and not kept.fits(trial.lived[:-1])
        for call in [one for one in trial.open.values() if one.prompt != "too slow"][:3]:
            trial.settle(call, answer)
        if trial.lived[-1].at == trial.now and isinstance(trial.lived[-1], Advanced):
            assert kept.program.until is not None
            trial.now = kept.program.until
            trial.append(Advanced())
        kept.follow(trial.lived)
        told = [*kept.desk.calls], [*kept.desk.dropped], kept.program.ended
        length = len(trial.lived)
        fresh = trial.wake()  # journals its news, if any
        news = [one for one in trial.lived[length:] if isinstance(one, Advanced)]
        assert told == ([*news[0].calls] if news else [], [*news[0].dropped] if news else [], fresh.program.ended)
        kept.follow(trial.lived)
    other = WorkflowTrial(make(3, 2))
    other.wake()
    assert not kept.fits(other.lived)


def test_a_trial_runs_a_workflow_to_its_typed_end_without_a_model() -> None:
    @workflow
    async def review(flow: Flow, files: list[str]) -> list[str]:
        """Review files."""
        flow.phase("look")
        found = await flow.pipeline(files, lambda file: flow.agent(f"Review {file}", returns=list[str]), limit=2)
        verdicts = await flow.parallel(
            *(flow.agent(f"Refute {x}", returns=Verdict) for one in found if one.ok for x in one.value)
        )
        await flow.sleep_until(flow.now() + datetime.timedelta(hours=1))
        return [str(one.value.real) if one.ok else str(one.error) for one in verdicts]

    def say(call: TriedCall) -> Any:
        if call.prompt == "Review b":
            fail("cannot read it")
        return (
            ["x"] if "Review" in call.prompt else {"real": "certainly"} if call.id[0] in "01234567" else {"real": True}
        )

    tried = try_workflow(review, say, {"files": ["a", "b"]})
    assert not tried.error and tried.seconds == 3_600 and tried.notes == ["phase: look"]
    assert [call.prompt for call in tried.calls] == ["Review a", "Review b", "Refute x"]
    assert tried.value == ["True"] or "real" in tried.value[0]
    assert "no files" in try_workflow(review, say, "{}").error
    for wrong in ({"files": 3}, {"file": ["a"]}, "a"):
        error = try_workflow(review, say, wrong).error
        assert error == "the task does not fit: files: Input should be a valid list; give a JSON object with files"
    with pytest.raises(ConfigurationError, match="is no workflow"):
        try_workflow(answer, say)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reach",
    [
        time.time,
        lambda: datetime.datetime.now(),
        random.random,
        uuid.uuid4,
        Path(__file__).read_text,
        lambda: threading.Thread(target=print).start(),
        lambda: time.sleep(0),
    ],
    ids=["clock", "date", "random", "uuid", "file", "thread", "sleep"],
)
def test_what_a_replay_cannot_repeat_is_refused_even_if_the_program_hides_it(reach: Any) -> None:
    @workflow
    async def outside(flow: Flow) -> list[str]:
        """Reach outside, and hide that."""
        with contextlib.suppress(Exception):
            reach()
        return []

    assert "a workflow cannot use" in try_workflow(outside, answer).error
    assert time.time() > 0  # only the program is watched


def test_others_clean_up_code_does_not_run_within_a_program() -> None:
    class Leaves:
        """Reads the clock when it is collected, as temporary files do more than that."""

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            time.time()

    @workflow
    async def busy(flow: Flow) -> int:
        """Make so much garbage that it is collected."""
        return len([[number] for number in range(20_000)])

    Leaves()
    assert try_workflow(busy, answer).value == 20_000 and gc.isenabled()


def test_a_program_that_never_waits_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.workflows.loop.MOST_STEPS", 1_000)

    @workflow
    async def busy(flow: Flow) -> None:
        """Turn in a circle."""
        while True:
            await asyncio.sleep(0)

    @workflow
    async def aside(flow: Flow) -> None:
        """Leave the loop."""
        await asyncio.to_thread(print)

    assert "without waiting" in try_workflow(busy, answer).error
    assert "run_in_executor" in try_workflow(aside, answer).error


def test_a_changed_program_is_stopped_with_both_requests() -> None:
    asked = ["one"]

    @workflow
    async def changing(flow: Flow) -> str:
        """Ask for something that lies outside."""
        return await flow.agent(asked[0])

    trial = WorkflowTrial(lambda desk: NativeProgram(changing, desk, ""))
    trial.wake()
    asked[0] = "two"
    with pytest.raises(WorkflowChanged, match=r"'one'.*'two'"):
        trial.wake()


def test_a_workflow_decides_like_any_agent_and_waits_for_none_of_its_calls() -> None:
    definition = workflow_of(PROGRAM)
    spec = make_spec().model_copy(update={"definition": definition})
    tools = [
        {"name": name, "description": "", "input_schema": {"type": "object"}} for name in ("Agent", "Bash", "WaitFor")
    ]
    began = [Started(spec=spec, tools=tools), Prompt(text="{}")]

    def call(name: str, number: int) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"c.{number}", "name": name, "input": {}}

    calls = [call("Agent", 0), call("Bash", 1), call("WaitFor", 2), call("Agent", 3)]
    entries: list[Any] = [*began, Advanced(calls=calls)]
    assert next_action(fold("a", began)) == Advance()
    assert next_action(fold("a", entries)) == RunTools([calls[1]])
    assert isinstance(next_action(fold("a", [*entries, ToolStarted(tool_use_id="c.1")])), Settle)
    entries.append(ToolFinished(tool_use_id="c.1", text="done"))
    assert next_action(fold("a", entries)) == SpawnAgents([calls[0], calls[3]])
    entries.append(Spawned(children={"c.0": "agent-1"}))
    assert next_action(fold("a", entries)) == SpawnAgents([calls[3]])
    entries.append(Advanced(dropped=["c.3"]))
    history = fold("a", entries)
    assert next_action(history) == Advance() and [*history.pending] == ["c.0", "c.2"]


def test_only_a_refusal_that_all_further_agents_would_meet_pauses_a_run() -> None:
    limits = Limits(max_agents=5)
    for text in (notes.too_many(5), notes.TOO_MANY_CHILDREN, notes.NO_ROOM):
        assert ends_all(ToolFinished(tool_use_id="c.0", text=text, is_error=True), limits)
        assert not ends_all(ToolFinished(tool_use_id="c.0", text=text), limits)
    assert not ends_all(ToolFinished(tool_use_id="c.0", text=notes.TOO_DEEP, is_error=True), limits)


def test_what_cannot_be_a_workflow_is_told_where_it_is() -> None:
    with pytest.raises(
        ConfigurationError, match=r"test_workflow_programs.py:\d+ cannot be a workflow: write `async def`"
    ):
        workflow(answer)  # type: ignore[type-var]

    async def silent(flow: Flow) -> None: ...

    with pytest.raises(ConfigurationError, match="no docstring"):
        workflow(silent)
    for decorator in ("workflow", "swarm.workflow(name='x')"):
        with pytest.raises(Unusable, match="go is a native workflow"):
            make_definition(f"@{decorator}\nasync def go(flow): ...", ".py", "x", "x.py")


def test_an_allowance_belongs_to_the_agents_of_its_block_and_has_one_amount() -> None:
    @workflow
    async def frugal(flow: Flow) -> float:
        """Give two allowances."""
        with flow.allowance("outer", 2) as outer:
            with flow.allowance("inner", usd=1):
                await asyncio.gather(flow.agent("a"), flow.agent("b", allowance=("other", 3)))
            await flow.agent("c")
        await flow.agent("d")
        return outer.left_usd

    trial = WorkflowTrial(lambda desk: NativeProgram(frugal, desk, ""))
    given = {}
    while (replay := trial.wake()).program.ended is None:
        given |= {
            call["input"]["prompt"]: call.get("allowance")
            for one in trial.lived
            if isinstance(one, Advanced)
            for call in one.calls
        }
        trial.append(Advanced(allowances={"outer": 0.5}))
        trial.settle(next(iter(trial.open.values())), answer)
    assert replay.program.ended.value == 1.5
    names = {prompt: one and (one["name"], one["usd"]) for prompt, one in given.items()}
    assert names == {"a": ("inner", 1), "b": ("other", 3), "c": ("outer", 2), "d": None}

    @workflow
    async def twice(flow: Flow) -> None:
        """Give one allowance two amounts."""
        for usd in (1, 2):
            with flow.allowance("same", usd):
                await flow.agent("a")

    assert "the allowance same has $1, not $2" in try_workflow(twice, answer).error
    for given in (spaced, boundless):
        assert "an allowance has a name" in try_workflow(workflow(given), answer).error


async def spaced(flow: Flow) -> None:
    """Give an allowance a bad name."""
    with flow.allowance("a b", 1):
        await flow.agent("a")


async def boundless(flow: Flow) -> None:
    """Give an allowance without a bound."""
    with flow.allowance("a", float("inf")):
        await flow.agent("a")


def test_the_next_segment_gets_a_waiting_program_only_once_the_last_one_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @workflow
    async def asking(flow: Flow) -> str:
        """Ask once."""
        return str(await flow.agent("a"))

    monkeypatch.setattr("swarm.capabilities.workflows.kept.LEAST_ENTRIES", 1)
    trial = WorkflowTrial(lambda desk: NativeProgram(asking, desk, ""))
    replay, name = trial.wake(), make_spec().agent_id
    histories: list[str] = []
    journal = SimpleNamespace(keep=lambda: histories.append(name))
    parts: Any = SimpleNamespace(
        segment=SimpleNamespace(spec=make_spec(), history=SimpleNamespace(lived=trial.lived), journal=journal),
    )
    step = WorkflowStep(parts)
    vars(step).update(_replay=replay, _waits=True)
    assert kept.take(name, trial.lived) is None
    step.after_segment()
    assert not replay.desk.closed and kept.take(name, trial.lived) is replay and histories == [name]
    trial.settle(next(iter(trial.open.values())), answer)
    replay.follow(trial.lived)
    assert replay.program.ended is not None and replay.program.ended.error == ""
    vars(step).update(_waits=False)
    step.after_segment()
    assert replay.desk.closed and kept.take(name, trial.lived) is None and histories == [name]
    monkeypatch.setattr("swarm.capabilities.workflows.kept.MOST_CHARACTERS", 0)
    assert not kept.is_worth_keeping(trial.lived)


def test_a_question_about_a_program_names_few_of_its_phases_on_one_line() -> None:
    assert WORKFLOW.weigh is not None
    script = "".join(f"phase('{number}\r\u2028{'x' * 60}')\n" for number in range(1_000))
    told = WORKFLOW.weigh({"script": script})
    assert len(told.splitlines()) == 1 and len(told) < 2_000, told
    assert told.startswith("its phases: 0 xxx") and told.endswith("x, and 980 more"), told
