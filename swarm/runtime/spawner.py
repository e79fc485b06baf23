"""Turns `Agent` calls into children. Pure, so a repeat after a crash asks for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.agent import notes
from swarm.agent.coordination.messages import VERDICT_LINE
from swarm.agent.coordination.rules import review_orders
from swarm.agent.history import History
from swarm.agent.results import check_schema
from swarm.agent.spec import AgentSpec, Limits
from swarm.core.errors import SwarmError, ToolError
from swarm.core.ids import child_agent_id
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import DEFAULT_TYPE, REMOTE_SECONDS, AgentDefinition, Execution
from swarm.definitions.tools import row_of
from swarm.mailbox import check_body, check_name
from swarm.models import Block, Usage
from swarm.models.catalogue import cost_usd
from swarm.permissions.definition_rules import definition_rules
from swarm.runtime.spawn_options import (
    FORK,
    choose_folder,
    choose_mode,
    choose_models,
    first_nickname,
    fork_tools,
    is_fork,
    next_nickname,
)
from swarm.store.values import Continuation, NotSpawned
from swarm.tools.agents import AGENT, SEARCH_MARK, find_types, ordering
from swarm.tools.registry import load_tool, validate_input
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.copies import CopyPlan

_FOR_NEW = ("fork", "teammate", "team_name", "result_schema", "name", "isolation", "kind", "mode", "cwd", "effort")
"""Parameters that do not apply to a continued agent."""


@dataclass
class Spawning:
    """Children to start or continue, and calls to refuse, by tool_use id."""

    children: dict[str, AgentSpec | Continuation] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    """Notes about calls that are carried out."""
    nicknamed: set[str] = field(default_factory=set)
    """Calls whose child has its type's nickname instead of a name from the call."""
    against: dict[str, str] = field(default_factory=dict)
    """Refused calls that break a coordination rule, to show to people."""

    def refuse(self, calls: Sequence[Block], why_not: Callable[[Block], str]) -> None:
        """Refuse those of the planned calls for which `why_not` gives a reason."""
        for call in calls:
            if call["id"] in self.children and (why := why_not(call)):
                del self.children[call["id"]]
                self.refused[call["id"]] = why

    def notes(self) -> dict[str, str]:
        """Notes about planned children."""
        return {call_id: note for call_id, note in self.told.items() if call_id in self.children}

    def background(self) -> list[str]:
        """Calls that do not wait for their child."""
        return [call_id for call_id, child in self.children.items() if child.background]


def plan_children(
    calls: Sequence[Block],
    parent: History,
    catalogue: Catalogue,
    find: Callable[[str], str],
    *,
    prices_file: Path | None = None,
    copies: CopyPlan | None = None,
    host: str = "",
) -> Spawning:
    """Decide the child of each call.

    `find` returns the id of an agent named by id or name, or raises. `copies` says who may have a copy of the workspace; `host` is the
    parent's host.
    The step that makes the children checks depth, names and limits again, against the records.
    """
    assert parent.spec is not None
    tool = ordering(AGENT) if parent.ledger is not None else AGENT
    review = review_orders(calls, parent)
    plan = Spawning(refused=dict(review.refused), told=review.notes, against=review.refused)
    for call in calls:
        if call["id"] in plan.refused:
            continue
        try:
            own, written = load_tool(row_of(call["name"]).home), None
            if own.orders is not None:
                order, written = own.orders(validate_input(own, call["input"]))
                call = {**call, "input": order}
            given = validate_input(tool if own.orders is None else AGENT, call["input"])
            if given.get("agent_id"):
                plan.children[call["id"]] = _continuation(given, find)
                continue
            if parent.spec.depth >= parent.spec.limits.max_depth:
                raise ToolError(notes.TOO_DEEP)
            child = _child(call, parent, catalogue, prices_file, written)
            child = _placed(child, call["input"], copies or CopyPlan(), host)
            _check_price(child, prices_file)
            plan.children[call["id"]] = child
            if child.name is not None and not given.get("name"):
                plan.nicknamed.add(call["id"])
        except SwarmError as error:
            plan.refused[call["id"]] = str(error)
    return plan


def _continuation(given: dict[str, Any], find: Callable[[str], str]) -> Continuation:
    for name in _FOR_NEW:
        if given.get(name):
            raise ToolError(f"`{name}` is for a new agent; it cannot go with `agent_id`.")
    return Continuation(
        find(given["agent_id"]), check_body(_prompt_of(given)), background=bool(given.get("run_in_background"))
    )


def _prompt_of(given: dict[str, Any]) -> str:
    """The whole order; a verifier also learns the form of its verdict."""
    prompt = str(given["prompt"])
    return f"{prompt}\n\n{VERDICT_LINE}" if given.get("phase") == "verification" else prompt


def _check_price(child: AgentSpec, prices_file: Path | None) -> None:
    models = [child.model, *child.fallbacks] if child.limits.budget_usd is not None else []
    for model in models:
        if cost_usd(model, Usage(), prices_file=prices_file) is None:
            raise ToolError(
                f"The price of the model {model} is not known, so the job's budget could not be enforced. "
                "Omit `model`, or name another one."
            )


def _child(
    call: Block, history: History, catalogue: Catalogue, prices_file: Path | None, written: AgentDefinition | None
) -> AgentSpec:
    assert history.spec is not None
    given, parent, above = call["input"], history.as_now(history.spec), history.mode
    fork = is_fork(given)
    definition = _definition_of(given, parent, catalogue, written)
    as_itself = _is_as_itself(given)
    teammate = _kind_of(definition, given) == "teammate"
    name = _name_of(given, definition, parent, teammate=teammate)
    if fork:
        # Requests of one model and effort only can share the cached conversation.
        models, effort = [parent.model, *parent.fallbacks], parent.definition.effort
    else:
        models = choose_models(given, definition, parent, prices_file)
        effort = given.get("effort") or definition.effort
    definition = definition.model_copy(update={"effort": effort})
    # A fork is its parent as it is now, which may have left plan mode.
    with_mode = parent.definition.model_copy(update={"permission_mode": above})
    mode = choose_mode(given, with_mode if as_itself else definition, above)
    own_tools = fork_tools(definition, parent, mode, history.tool_names()) if fork and not as_itself else None
    return AgentSpec(
        agent_id=child_agent_id(parent.agent_id, call["id"]),
        job_id=parent.job_id,
        parent_id=parent.agent_id,
        depth=parent.depth + 1,
        definition=definition,
        description=" ".join(given["description"].split())[:200],
        prompt=_prompt_of(given),
        model=models[0],
        fallbacks=tuple(models[1:]),
        name=name,
        background=teammate or bool(given.get("run_in_background", definition.background)),
        teammate=teammate,
        role=given.get("role"),
        fork=history.length if fork else None,
        has_tools=own_tools,
        cwd=choose_folder(given, parent),
        workspace=parent.workspace_for(child_agent_id(parent.agent_id, call["id"])),
        base=history.commit if parent.is_carried else "",
        files=parent.files,
        folders=parent.folders,
        mode=mode,
        after_plan=above if mode == "plan" and above != "plan" else None,
        rules=parent.rules + definition_rules(definition),
        profile=history.hooks.profile,
        network=parent.network or definition.network,
        base_url=parent.base_url,
        summaries=parent.summaries,
        limits=_limits_of(call, parent),
    )


def _limits_of(call: Block, parent: AgentSpec) -> Limits:
    """Return the child's limits: its parent's, with a budget if only its allowance bounds its money."""
    if "allowance" not in call or parent.limits.budget_usd is not None:
        return parent.limits
    return parent.limits.model_copy(update={"budget_usd": call["allowance"]["usd"]})


def _is_as_itself(given: dict[str, Any]) -> bool:
    """Whether a fork keeps its parent's type."""
    return is_fork(given) and given.get("subagent_type") in (None, FORK)


def _definition_of(
    given: dict[str, Any], parent: AgentSpec, catalogue: Catalogue, written: AgentDefinition | None
) -> AgentDefinition:
    """The child's definition: the one written in the call or its type's, bounded by its parent and the call; or `ToolError`."""
    if is_fork(given):
        _check_fork(given, parent)
    if _is_as_itself(given):
        # The form of the parent's own answer does not bind the fork.
        definition = parent.definition.model_copy(update={"result_schema": None})
    else:
        named = written or _definition(given.get("subagent_type") or DEFAULT_TYPE, catalogue)
        definition = bounded(named, parent)
    if given.get("phase") == "research":
        # A research child must not be able to implement anything.
        definition = definition.model_copy(update={"read_only": True})
    if schema := given.get("result_schema"):
        definition = definition.model_copy(update={"result_schema": schema})
    if definition.result_schema and (fault := check_schema(definition.result_schema)):
        raise ToolError(f"`result_schema` cannot be used: {fault}")
    return definition


def _name_of(given: dict[str, Any], definition: AgentDefinition, parent: AgentSpec, *, teammate: bool) -> str | None:
    """The name in the call, or the type's nickname. A teammate without one is a `ToolError`."""
    if given.get("name"):
        name: str | None = check_name(given["name"])
    else:
        name = None if _is_as_itself(given) else first_nickname(definition)
    if not teammate:
        return name
    if name is None:
        raise ToolError("A teammate needs a `name`: the others write to it by that.")
    if parent.teammate:
        raise ToolError("Teams do not nest: a teammate cannot have teammates. Start an agent without `teammate`.")
    return name


def _kind_of(definition: AgentDefinition, given: dict[str, Any]) -> Execution:
    # A fork copies its parent, which may stay alive after its task. The fork does so only on request.
    by_type = "forked" if is_fork(given) and definition.kind == "teammate" else definition.kind
    return "teammate" if given.get("teammate") or given.get("team_name") else given.get("kind") or by_type


def _placed(child: AgentSpec, given: dict[str, Any], copies: CopyPlan, host: str) -> AgentSpec:
    """Give the child its host and its folder: its parent's, or a copy of that."""
    kind = _kind_of(child.definition, given)
    limit = child.definition.timeout_seconds or (REMOTE_SECONDS if kind == "remote" else None)
    child = child.model_copy(update={"host": host if kind == "local" else "", "max_seconds": limit})
    asked = given.get("isolation") or child.definition.isolation
    writes = not child.definition.read_only and child.mode != "plan"
    if child.is_carried:
        # A writing child needs its own copy, whose changes come back.
        isolation = (asked if asked == "remote" else "worktree") if writes else "none"
        return child.model_copy(update={"isolation": isolation}).beside_readers()
    if asked in (None, "none"):
        return child
    if asked == "remote":
        raise ToolError(
            "`isolation: remote` needs a hub (SWARM_HUB), which carries files to other hosts. Use `worktree`, or `none`."
        )
    if copies.folder is None:
        raise ToolError(f"`isolation: {asked}` is not possible: {copies.missing} Start it with `isolation: none`.")
    workspace = place_checkout(copies.folder, child.agent_id, Path(child.workspace).name)
    return child.model_copy(update={"isolation": asked, "workspace": str(workspace)})


def _check_fork(given: dict[str, Any], parent: AgentSpec) -> None:
    if parent.fork is not None:
        raise ToolError(
            "You are a fork yourself, and forks are not forked. Start a fresh agent, or do the work yourself."
        )
    for name in ("model", "effort"):
        if given.get(name):
            raise ToolError(
                f"A fork has your model and effort, so that it reads your conversation from the cache. Omit `{name}`."
            )


def _definition(name: str, catalogue: Catalogue) -> AgentDefinition:
    if name.startswith(SEARCH_MARK):
        raise ToolError(find_types(name[len(SEARCH_MARK) :], catalogue.for_spawning()))
    return catalogue.get_for_spawning(name)


def bounded(definition: AgentDefinition, parent: AgentSpec) -> AgentDefinition:
    """Bound the child's definition by its parent: a read-only agent has read-only children only."""
    return definition.model_copy(update={"read_only": definition.read_only or parent.definition.read_only})


def refuse(plan: Spawning, answer: NotSpawned, max_agents: int) -> None:
    """Move the calls that the store could not serve from the plan's children to its refusals."""
    fresh = {call_id: child for call_id, child in plan.children.items() if isinstance(child, AgentSpec)}
    chosen = [call_id for call_id, child in plan.children.items() if child.agent_id == answer.child]
    match answer.why:
        case "name":
            if (call_id := chosen[0]) in plan.nicknamed:
                plan.children[call_id] = next_nickname(fresh[call_id])
                return
            text = notes.name_taken(answer.detail)
        case "resume":
            text = notes.cannot_go_on(answer.child, answer.detail)
        case "depth":
            text, chosen = notes.TOO_DEEP, list(fresh)
        case "full":
            text, chosen = notes.NO_ROOM, list(fresh)
        case "team":
            text, chosen = notes.NO_TEAM, [call_id for call_id, child in fresh.items() if child.teammate]
        case "limit" | "children" as why:
            # The first ones start, the others get a refusal.
            text = notes.too_many(max_agents) if why == "limit" else notes.TOO_MANY_CHILDREN
            chosen = list(fresh)[answer.room :]
    for call_id in chosen:
        del plan.children[call_id]
        plan.refused[call_id] = text
