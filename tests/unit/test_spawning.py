"""What `Agent` calls make of a parent: forks are what their parent is now."""

from __future__ import annotations

from typing import Any

from swarm.agent.entries import Answered, Assistant, Prompt, Started
from swarm.agent.life import Life, fold
from swarm.agent.spec import AgentSpec
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from swarm.runtime.spawning import plan_children


def _call(call_id: str, name: str, **given: Any) -> Assistant:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return Assistant(content=[block], stop_reason="tool_use", usage=Usage(), model="m")


def _parent(**definition: Any) -> Life:
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


def _fork(parent: Life) -> AgentSpec:
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
