"""What `Agent` calls make of a parent: forks are what their parent is now.

Tests of swarm/agent/spec.py, swarm/runtime/spawner.py, swarm/tools/agents.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from swarm.agent.entries import Answered, Assistant, Prompt, Started
from swarm.agent.history import History, fold
from swarm.agent.needs import Has, find_unmet, formats, needs_of
from swarm.agent.spec import AgentSpec
from swarm.core.release import FORMAT
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from swarm.runtime.spawner import plan_children
from swarm.tools.agents import AGENT, naming_types


def _call(call_id: str, name: str, /, **given: Any) -> Assistant:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return Assistant(content=[block], stop_reason="tool_use", usage=Usage(), model="m")


def _parent(**definition: Any) -> History:
    spec = AgentSpec(
        agent_id="agent-0000000000000000",
        job_id="job-0000000000000000",
        definition=AgentDefinition(name="planner", description="Plans.", prompt="Plan.", **definition),
        description="parent",
        prompt="go",
        model="m",
        workspace="/nonexistent",
        mode="plan",
        after_plan="bypassPermissions",
    )
    return fold("agent-0000000000000000", [Started(spec=spec), Prompt(text="go")])


def _fork(parent: History) -> AgentSpec:
    parent.apply(_call("fork", "Agent", description="a part", prompt="do a part", fork=True))
    plan = plan_children(list(parent.pending.values()), parent, Catalogue(definitions={}), lambda who: who)
    child = plan.children["fork"]
    assert isinstance(child, AgentSpec) and child.fork == parent.length
    return child


def test_a_fork_of_one_that_left_plan_mode_is_not_in_plan_mode_again() -> None:
    parent = _parent(permission_mode="plan")
    assert _fork(parent).mode == "plan"
    parent = _parent(permission_mode="plan")
    parent.apply(_call("plan", "ExitPlanMode"))
    parent.apply(Answered(tool_use_id="plan", allowed=True, mode="acceptEdits"))
    parent.pending.clear()
    assert _fork(parent).mode == "acceptEdits"


def test_a_fork_need_not_answer_in_the_form_that_its_parent_must() -> None:
    assert _fork(_parent(result_schema={"type": "integer"})).definition.result_schema is None


# -- thousands of types ------------------------------------------------------------------------------------------


def _types(count: int, description: str) -> dict[str, AgentDefinition]:
    made = (
        AgentDefinition(name=f"type-{n:04}", description=f"Number {n}. {description}", prompt="p", source=f"/x/{n}.md")
        for n in range(count)
    )
    worker = AgentDefinition(name="worker", description="Does work.", prompt="p")
    return {one.name: one for one in (*made, worker)}


def _listed(definitions: dict[str, AgentDefinition]) -> str:
    return naming_types(AGENT, Catalogue(definitions=definitions).for_spawning()).description.partition("\nTypes:\n")[2]


def test_a_few_types_are_described_whole() -> None:
    assert _listed(_types(2, "Says much.")) == (
        "- type-0000: Number 0. Says much.\n- type-0001: Number 1. Says much.\n- worker: Does work."
    )


def test_long_descriptions_of_a_few_types_are_cut_to_equal_shares() -> None:
    listed = _listed(_types(20, "A long text. " * 100))
    assert 8_000 < len(listed) <= 12_000 and listed.count("…") == 20 and listed.startswith("- worker: Does work.\n")


@pytest.mark.parametrize("count", [200, 1_000, 5_000])
def test_the_list_of_types_stays_small_however_many_there_are(count: int) -> None:
    listed = _listed(_types(count, "A long text. " * 30))
    assert len(listed) <= 12_000, "below 4 000 tokens"
    assert listed.startswith("- worker"), "what is shipped is always named"
    assert "Number 7." in listed if count == 200 else "- type-0007\n" in listed
    assert 'subagent_type: "?keyword"' in listed
    assert ("more: search for them" in listed) == (count > 900)


def test_a_type_is_found_by_words_and_nothing_is_started() -> None:
    definitions = _types(1_000, "Looks at tests.") | {
        "zebra": AgentDefinition(name="zebra", description="Paints stripes.", prompt="p")
    }
    parent = _parent()
    asked = {"a": "? STRIPES paints", "b": "?tests", "c": "?nothing has this", "d": "type-007"}
    calls = [_call(i, "Agent", description="d", prompt="p", subagent_type=kind).content[0] for i, kind in asked.items()]
    parent.apply(Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="m"))
    plan = plan_children(list(parent.pending.values()), parent, Catalogue(definitions=definitions), lambda who: who)
    assert plan.children == {}
    assert "- zebra: Paints stripes." in plan.refused["a"] and "Nothing was started" in plan.refused["a"]
    assert len(plan.refused["b"]) < 12_000 and "more: search with more words" in plan.refused["b"]
    assert "No type has" in plan.refused["c"]
    assert "the closest of 1002 types are: type-0070, type-0071" in plan.refused["d"]
    assert len(plan.refused["d"]) < 400


@pytest.mark.parametrize(
    ("of_type", "given", "host", "seconds", "teammate"),
    [
        ({}, {}, "", None, False),
        ({"kind": "local"}, {}, "here", None, False),
        ({"kind": "local"}, {"kind": "forked"}, "", None, False),
        ({}, {"kind": "local"}, "here", None, False),
        ({"kind": "remote"}, {}, "", 1_800, False),
        ({"kind": "remote", "timeout_seconds": 60.0}, {}, "", 60, False),
        ({"kind": "teammate"}, {"name": "mate"}, "", None, True),
        ({}, {"kind": "teammate", "name": "mate"}, "", None, True),
        ({"kind": "local"}, {"teammate": True, "name": "mate"}, "", None, True),
    ],
)
def test_how_an_agent_runs_is_its_types_or_the_calls_choice(
    of_type: dict[str, Any], given: dict[str, Any], host: str, seconds: float | None, teammate: bool
) -> None:
    definitions = {"it": AgentDefinition(name="it", description="d", prompt="p", model="haiku", **of_type)}
    parent = _parent()
    parent.apply(_call("one", "Agent", description="a part", prompt="do a part", subagent_type="it", **given))
    calls, catalogue = list(parent.pending.values()), Catalogue(definitions=definitions)
    plan = plan_children(calls, parent, catalogue, lambda who: who, host="here")
    assert not plan.refused
    child = plan.children["one"]
    assert isinstance(child, AgentSpec)
    assert (child.host, child.max_seconds, child.teammate) == (host, seconds, teammate)
    today = dict.fromkeys(formats(FORMAT, FORMAT), "")
    assert set(needs_of(child).wants) == {*today, *(["host:here"] if host else [])}
    lack = find_unmet(needs_of(child), Has(offers={**today, "host:there": ""}))
    assert bool(host) == ("the host here" in lack)
    assert not find_unmet(needs_of(child), Has(offers={**today, "host:here": ""}))
