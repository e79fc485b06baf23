"""The grader: a read-only agent that the runtime starts to judge another one's work."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from swarm.agent.outcomes.messages import VERDICT_SCHEMA, ask_grader
from swarm.agent.spec import AgentSpec
from swarm.core.ids import child_agent_id
from swarm.definitions.markdown import read_markdown
from swarm.definitions.model import AgentDefinition, Outcome, PermissionMode
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import first_mode


@cache
def grader_definition() -> AgentDefinition:
    """Return the graders' definition; it is not among the types that agents can start."""
    [definition] = read_markdown(Path(__file__).with_name("grader.md")).definitions
    return definition.model_copy(update={"source": "shipped", "result_schema": VERDICT_SCHEMA})


def make_grader(
    spec: AgentSpec,
    outcome: Outcome,
    *,
    attempt: int,
    entry: int,
    mode: PermissionMode,
    commit: str,
    answer: str,
    check: str,
) -> AgentSpec:
    """Make the grader of the journal's entry `entry`; a repeat after a crash makes the same one.

    `mode` is its author's, `commit` the author's workspace, where files are carried.
    """
    definition, agent_id = grader_definition(), child_agent_id(spec.agent_id, f"grader/{entry}")
    return AgentSpec(
        agent_id=agent_id,
        job_id=spec.job_id,
        parent_id=spec.agent_id,
        depth=spec.depth + 1,
        definition=definition,
        description=f"attempt {attempt} of {outcome.tries}",
        prompt=ask_grader(spec.prompt, outcome, answer, check),
        model=spec.model,
        fallbacks=spec.fallbacks,
        mode=first_mode(definition, mode),
        rules=spec.rules + definition_rules(definition),
        folders=spec.folders,
        workspace=spec.workspace_for(agent_id),
        base=commit if spec.is_carried else "",
        files=spec.files,
        base_url=spec.base_url,
        helper=True,
        limits=spec.limits,
    ).beside_readers()
