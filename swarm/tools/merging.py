"""The tool that takes over what an agent did in a copy of its own. The runtime merges; this asks it to."""

from __future__ import annotations

from typing import Any, get_args

from swarm.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.agents import find_child
from swarm.tools.schemas import choice, string
from swarm.workspace.merging import Strategy


def _merge_agent(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    child_id = find_child(context.store, context.spec, given["agent_id"])
    if context.read_only or context.mode == "plan":
        raise ToolError("You may change nothing here, so nothing can be merged.")
    assert context.merge is not None, "only a running agent merges"
    return context.merge(context.store.agent(child_id), given.get("strategy", "merge"))


MERGE_AGENT = Tool(
    name="MergeAgent",
    description=(
        "Take over into your folder what an agent of yours did in a copy of its own (isolation), where that was not done with its "
        "result: it conflicted, the agent was in the background, or did not complete. What does not conflict is always merged."
    ),
    parameters={
        "agent_id": string("Its id or name."),
        "strategy": choice(
            get_args(Strategy),
            "Where both changed the same: merge (default) writes both into the file between conflict markers, for you to edit; "
            "ours keeps yours, theirs takes the agent's; none merges nothing.",
        ),
    },
    required=["agent_id"],
    run=_merge_agent,
)
