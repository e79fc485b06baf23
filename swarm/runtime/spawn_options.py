"""Options of a call that starts an agent: model, effort, mode, folder and name. Pure.

Each is checked. A refusal lists the possible values.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import BadName, ToolError
from swarm.definitions.model import AgentDefinition, PermissionMode
from swarm.definitions.names import split_chain
from swarm.mailbox import check_name
from swarm.models.catalogue import describe_aliases, load_models, price_of, resolve_model
from swarm.permissions.filter import Situation, filter_tools
from swarm.permissions.modes import MODES, first_mode

FORK = "fork"
"""The `subagent_type` of a fork that keeps its parent's type."""


def is_fork(given: Mapping[str, Any]) -> bool:
    """Whether the call asks for a fork."""
    return bool(given.get("fork")) or given.get("subagent_type") == FORK


def choose_models(
    given: Mapping[str, Any], definition: AgentDefinition, parent: AgentSpec, prices_file: Path | None
) -> list[str]:
    """Return the full ids of the new agent's chain of models. A model named in a call must be a known one.

    An agent with its parent's model has the parent's whole chain. Raises `ToolError` with the known models.
    """
    asked = split_chain(given.get("model") or "")
    named: list[str | None] = [*asked] if asked else [definition.model, *definition.fallbacks]
    models = [resolve_model(name, default=parent.model, parent=parent.model, prices_file=prices_file) for name in named]
    for name, model in zip(asked, models, strict=False):
        if model != parent.model and price_of(model, prices_file=prices_file) is None:
            known = ", ".join(sorted(load_models(prices_file).models))
            raise ToolError(
                f"The model {name!r} is not known here. Use {describe_aliases(prices_file)}, inherit, or one of: {known}."
            )
    return [parent.model, *parent.fallbacks] if models == [parent.model] else list(dict.fromkeys(models))


def choose_mode(given: Mapping[str, Any], definition: AgentDefinition, above: PermissionMode) -> PermissionMode:
    """Choose the new agent's first mode. A call can only lower it. Raises `ToolError`."""
    most = first_mode(definition, above)
    asked: PermissionMode = given.get("mode") or most
    if MODES.index(asked) > MODES.index(most):
        less = ", ".join(MODES[: MODES.index(most) + 1])
        raise ToolError(f"`mode: {asked}` permits more than this agent may be given ({most}). Choose from: {less}.")
    return asked


def choose_folder(given: Mapping[str, Any], parent: AgentSpec) -> str:
    """Choose the agent's first folder, relative to the workspace; `ToolError` if outside."""
    asked = given.get("cwd")
    if not asked:
        # Children begin in their parent's folder.
        return parent.cwd
    root = os.path.realpath(parent.workspace)
    found = os.path.realpath(os.path.join(root, parent.cwd, asked)) if "\0" not in asked else ""
    if found != root and not found.startswith(root.rstrip("/") + "/"):
        raise ToolError(f"`cwd: {asked}` is not in the workspace {parent.workspace}. Name a folder of it.")
    if not os.path.isdir(found):
        raise ToolError(f"`cwd: {asked}` is not a folder of the workspace. Make it first, or name another one.")
    return "" if found == root else os.path.relpath(found, root)


def fork_tools(
    definition: AgentDefinition, parent: AgentSpec, mode: PermissionMode, tools: Collection[str]
) -> list[str]:
    """The tools in a fork's request prefix that it may call as an agent of another type."""
    situation = Situation(
        definition=definition,
        depth=parent.depth + 1,
        max_depth=parent.limits.max_depth,
        is_root=False,
        mode=mode,
        # Without a sandbox, a read-only agent is refused when its command is about to run.
        sandbox=True,
    )
    return filter_tools(sorted(tools), situation)


def first_nickname(definition: AgentDefinition, after: str | None = None) -> str | None:
    """The type's first nickname, or the one after `after`; None if no more are left."""
    names = [name for name in definition.nicknames if _may_be_named(name)]
    rest = names if after is None else names[names.index(after) + 1 :]
    return rest[0] if rest else None


def next_nickname(spec: AgentSpec) -> AgentSpec:
    """Rename the agent to its type's next nickname, or to none if no more are left."""
    return spec.model_copy(update={"name": first_nickname(spec.definition, spec.name)})


def _may_be_named(name: str) -> bool:
    try:
        return bool(check_name(name))
    except BadName:
        return False
