"""A new run of a workflow makes only the calls that are needed, in each of the three languages.

Tests of swarm/workflows/reuse.py, swarm/client/workflows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from swarm import Flow, workflow
from swarm.agent.entries import Advanced, ToolFinished
from swarm.client.workflows import expect_cost
from swarm.core.ids import child_agent_id
from swarm.core.records import Limits
from swarm.definitions.model import AgentDefinition
from swarm.definitions.own.workflow import declare_workflow, workflow_of
from swarm.definitions.workflow_files import make_definition
from swarm.workflows.front_ends import make_program
from swarm.workflows.results import as_text
from swarm.workflows.reuse import Reuse, plan_run, reuse_of
from swarm.workflows.trial import TriedCall, WorkflowTrial, fail


@workflow
async def in_lanes(flow: Flow, lanes: list[list[str]], final: list[str]) -> str:
    """Run each lane's agents one after the other, all lanes at once, and then the final ones."""

    async def lane(prompts: list[str]) -> None:
        for prompt in prompts:
            await flow.agent(prompt)

    await flow.parallel(*(lane(prompts) for prompts in lanes))
    for prompt in final:
        await flow.agent(prompt)
    return "done"


PYTHON = """
async def lane(prompts):
    for prompt in prompts:
        await agent(prompt)
await parallel(*[lane(prompts) for prompts in args["lanes"]])
for prompt in args["final"]:
    await agent(prompt)
"done"
"""
SCRIPT = """export const meta = { name: "in_lanes", description: "Runs lanes." };
await parallel(args.lanes.map((prompts) => async () => {
  for (const prompt of prompts) if ((await agent(prompt)) === null) return null;
}));
for (const prompt of args.final) await agent(prompt);
return "done";
"""


@pytest.fixture(params=["native", "python", "javascript"])
def program(request: pytest.FixtureRequest) -> AgentDefinition:
    """The same workflow in each language."""
    if request.param == "native":
        request.getfixturevalue("monkeypatch").setattr("swarm.definitions.own.workflow._declared", {})
        declare_workflow(in_lanes)
        return workflow_of(in_lanes)  # type: ignore[return-value]
    pytest.importorskip({"python": "pydantic_monty", "javascript": "quickjs"}[request.param])
    source, suffix = (PYTHON, ".py") if request.param == "python" else (SCRIPT, ".js")
    return make_definition(source, suffix, "in_lanes", "x")


class Ran(NamedTuple):
    """A run: its journal, and the prompts of the agents that it paid."""

    lived: list[Any]
    paid: list[str]
    value: Any


def run(
    program: AgentDefinition,
    task: dict[str, Any],
    answer: Callable[[TriedCall], Any] = lambda call: "R",
    reuse: Reuse | None = None,
    most: int = 1_000,
) -> Ran:
    """Run a workflow to its end, or until `most` agents have ended."""
    text = as_text(task)
    trial = WorkflowTrial(lambda desk: make_program(program, desk, text))
    paid: list[str] = []
    while True:
        replay = trial.wake()
        ended = replay.program.ended
        replay.program.close()
        if ended is not None or len(paid) >= most:
            return Ran(trial.lived, paid, None if ended is None else ended.value)
        known = [] if reuse is None else reuse.take({"id": call_id} for call_id in trial.open)
        for result in known:
            trial.append(result)
        if not known:
            # Later calls end first: the order of ends is not that of starts.
            call = list(trial.open.values())[-1]
            paid.append(call.prompt)
            trial.settle(call, answer)


def named(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def lanes(count: int, deep: int) -> list[list[str]]:
    return [[f"{name} step {step}" for step in range(deep)] for name in named("lane", count)]


PIPELINE = {"lanes": lanes(8, 2), "final": []}
PARALLEL = {"lanes": lanes(8, 1), "final": ["sum up"]}
BRANCHES = {"lanes": lanes(3, 7), "final": ["sum up", "publish"]}
EDITED = {**PARALLEL, "lanes": [["another prompt"], *lanes(8, 1)[1:]]}
INSERTED = {**PARALLEL, "lanes": [["a new one"], *lanes(8, 1)]}
MOVED = {**PARALLEL, "lanes": lanes(8, 1)[::-1]}


@pytest.mark.parametrize(
    ("first", "failing", "second", "again"),
    [
        (PIPELINE, "", PIPELINE, []),
        (BRANCHES, "publish", BRANCHES, ["publish"]),
        (PIPELINE, "lane 3 step 0", PIPELINE, ["lane 3 step 0", "lane 3 step 1"]),
        (PARALLEL, "lane 3 step 0", PARALLEL, ["lane 3 step 0"]),
        (PARALLEL, "", EDITED, ["another prompt"]),
        (PARALLEL, "", INSERTED, ["a new one"]),
        (PARALLEL, "", MOVED, []),
    ],
    ids=["nothing", "last of branches", "first stage", "one of eight", "edited", "inserted", "reversed"],
)
def test_only_what_failed_or_changed_runs_again(
    program: AgentDefinition, first: dict[str, Any], failing: str, second: dict[str, Any], again: list[str]
) -> None:
    before = run(program, first, lambda call: fail("no") if call.prompt == failing else "R")
    reuse = reuse_of("job-1", before.lived, Limits(), retry_failed=True)
    after = run(program, second, reuse=reuse)
    assert after.paid == again and after.value == "done"
    plan = plan_run(program, as_text(second), reuse)
    assert [call.prompt for call in plan.calls] == again[:1] and (plan.ended is None) == bool(again)


def test_a_run_that_was_cut_pays_only_what_had_not_ended(program: AgentDefinition) -> None:
    before = run(program, PARALLEL, most=2)
    assert len(before.paid) == 2
    reuse = reuse_of("job-1", before.lived, Limits())
    after = run(program, PARALLEL, reuse=reuse)
    assert len(after.paid) == 7 and not {*after.paid} & {*before.paid}
    assert len([one for one in after.lived if isinstance(one, ToolFinished)]) == 9


def test_results_of_workflows_below_are_found_by_the_calls_that_run_them_again() -> None:
    def done(call_id: str, *, failed: bool = False) -> ToolFinished:
        return ToolFinished(tool_use_id=call_id, text=f"R{call_id}", is_error=failed)

    calls = [{"id": f"a.{number}", "name": "Agent", "input": {}} for number in range(4)] + [{"id": "b.0"}]
    lived = [Advanced(calls=calls), done("a.0", failed=True), done("a.1"), done("a.2")]
    deep = Reuse(job_id="job-1", results=[done("x.0")])
    below = {"a.0": Reuse(job_id="job-1", results=[done("y.0")], below={"c.0": deep}), "a.3": deep}
    reuse = reuse_of("job-1", lived, Limits(), retry_failed=True, below=below)
    assert [(one.tool_use_id, one.text) for one in reuse.results] == [("a.0", "Ra.1"), ("a.1", "Ra.2")]
    assert reuse.below == {"a.2": below["a.0"], "a.3": deep}
    inner = child_agent_id("agent-new", "a.2")
    assert reuse.of("agent-new", "agent-new") is reuse and reuse.of(inner, "agent-new") is below["a.0"]
    assert reuse.of(child_agent_id(inner, "c.0"), "agent-new") is deep and reuse.of("agent-x", "agent-new") is None
    assert Reuse.model_validate_json(reuse.model_dump_json()) == reuse
    given = Reuse(job_id="job-0", results=[done("a.1"), done("d.0")], below={"a.2": deep, "b.0": deep})
    both = reuse.with_rest_of(given, asked={"a.0", "a.1", "a.2", "a.3", "b.0"}, ended={"a.0", "a.1", "a.2"})
    assert [one.tool_use_id for one in both.results] == ["a.0", "a.1", "d.0"]
    assert both.below == {**reuse.below, "b.0": deep}


def test_calls_are_expected_to_cost_what_they_did_or_as_much_as_others() -> None:
    calls = [TriedCall("a.0", "Agent", {}), TriedCall("new.0", "Agent", {}), TriedCall("c.0", "Bash", {})]
    assert expect_cost(calls, {"a.0": 0.5, "b.0": 1.5}) == 0.5 + 1.0
    assert expect_cost(calls, {}) is None
