"""Initial fields of job and agent records, made from their specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

from swarm.agent.needs import needs_of
from swarm.agent.spec import AgentSpec
from swarm.core.plain import clean, clean_text
from swarm.core.records import EndState
from swarm.store.callbacks import Callback
from swarm.store.values import NANO, Continuation, normal_role


class JobTerms(TypedDict, total=False):
    """The terms of a job besides its root agent."""

    retention_seconds: Required[float]
    retention_by_state: Mapping[EndState, float]
    archive_seconds: float | None
    rules: str
    """Rules, as JSON."""
    ask_seconds: float
    weight: int
    """The job's share of the fleet."""
    order: str
    folder: str
    """The person's folder, if the root works on a copy."""
    callback: Callback | None
    memory: str
    """Places of its agents' memory, as JSON."""


def job_fields(spec: AgentSpec, **terms: Unpack[JobTerms]) -> dict[str, Any]:
    """Initial fields of a job with this root."""
    limits = spec.limits
    job: dict[str, Any] = {
        "title": spec.description,
        "workspace": terms.get("folder") or spec.workspace,
        "rules": terms.get("rules", ""),
        "memory": terms.get("memory", ""),
        "ask_seconds": terms.get("ask_seconds", 0.0),
        "limits": limits.model_dump_json(),
        "retention": int(terms["retention_seconds"]),
        "max_depth": limits.max_depth,
        "max_agents": limits.max_agents,
        "max_running": limits.max_running,
        "weight": terms.get("weight", 1),
        "max_resumes": limits.max_resumes,
    }
    job |= {f"retention_{state}": int(seconds) for state, seconds in terms.get("retention_by_state", {}).items()}
    if (archive := terms.get("archive_seconds")) is not None:
        job["archive"] = int(archive)
    if order := terms.get("order"):
        job["order"] = order
    if spec.files is not None:
        job["files"] = "carried" if spec.is_carried else "snapshots"
    if (callback := terms.get("callback")) is not None:
        job |= {"callback": callback.model_dump_json(), "callback_broker": callback.broker}
    if spec.base_url is not None:
        job["rehearsed"] = 1
    if limits.max_tokens is not None:
        job["max_tokens"] = limits.max_tokens
    if limits.budget_usd is not None:
        job["max_cost"] = round(limits.budget_usd * NANO)
    return job


def agent_fields(spec: AgentSpec, tools: Sequence[str] = ()) -> dict[str, str]:
    """Initial fields of an agent with a clean spec; `tools` are its parent's, if it begins with them."""
    fields = {"spec": spec.model_dump_json(), "label": spec.label, "definition": spec.definition.name}
    needs = needs_of(spec, tools)
    fields |= {"needs": needs.model_dump_json(), "wants": " ".join(needs.wants), "model": spec.model}
    if spec.base_url is not None:
        fields["rehearsed"] = "1"
    if spec.name is not None:
        fields["name"] = spec.name
    if spec.isolation != "none":
        fields["isolation"] = spec.isolation
    if spec.role:
        fields["role"] = normal_role(spec.role)
    if spec.definition.outcome is not None and spec.definition.outcome.rubric:
        fields["graded"] = "1"
    return fields | {flag: "1" for flag in ("background", "teammate", "helper") if getattr(spec, flag)}


def child_fields(child: AgentSpec | Continuation, tools: Sequence[str]) -> dict[str, str]:
    """Initial fields of a child, or the fields that continue one."""
    if isinstance(child, Continuation):
        return {"id": child.agent_id, "resume": clean_text(child.prompt), "background": str(int(child.background))}
    return {"id": child.agent_id, **agent_fields(clean(child), tools if child.fork is not None else ())}
