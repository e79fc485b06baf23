"""Agents of a job's past with the definitions that a folder has now, in the place of those that travelled with the job. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.models.catalogue import resolve_model
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.rules import Rules
from swarm.replay.branch import Moment
from swarm.replay.past import Past

_ORDERED = ("result_schema", "outcome", "effort")
"""What whoever started the agent may have added to its definition."""


def redefine(
    past: Past, moment: Moment, catalogue: Catalogue, *, model: str | None = None, prices_file: Path | None = None
) -> dict[str, dict[str, Any]]:
    """By agent, what is otherwise in its spec; agents whose type is not there any more, and forks, stay what they were.

    `model` is the one that the first agent is to have whatever its definition says. Raises `ConfigurationError` if its type is not there.
    """
    made: dict[str, AgentSpec] = {}
    for old in moment.lives:
        spec = AgentSpec.model_validate(past.agents[old].spec)
        definition = catalogue.definitions.get(spec.definition.name)
        if definition is None and old == moment.agent_id:
            known = ", ".join(sorted(catalogue.definitions))
            raise ConfigurationError(f"{old} is of the type {spec.definition.name!r}, and there are only {known}")
        if definition is not None and spec.fork is None:
            made[old] = _redefined(spec, definition, made.get(past.agents[old].parent), prices_file)
    if model is not None and moment.agent_id in made:
        made[moment.agent_id] = made[moment.agent_id].model_copy(update={"model": model})
    fields = {"definition", "model", "rules", "limits"}
    return {old: spec.model_dump(mode="json", include=fields) for old, spec in made.items()}


def _redefined(
    spec: AgentSpec, definition: AgentDefinition, parent: AgentSpec | None, prices_file: Path | None
) -> AgentSpec:
    was = spec.definition
    ordered = {name: getattr(was, name) for name in _ORDERED if getattr(definition, name) is None}
    read_only = definition.read_only or (parent is not None and parent.definition.read_only)
    definition = definition.model_copy(update={**ordered, "read_only": read_only})
    # Of one that goes on alone, what its parents' and its own definition took away cannot be told apart.
    above = parent.rules if parent is not None else Rules() if spec.parent_id is None else spec.rules
    update: dict[str, Any] = {"definition": definition, "rules": above + definition_rules(definition)}
    if definition.model and definition.model != was.model:
        inherited = spec.model if parent is None else parent.model
        update["model"] = resolve_model(definition.model, default=spec.model, parent=inherited, prices_file=prices_file)
    if definition.max_turns is not None and spec.parent_id is None:
        update["limits"] = spec.limits.model_copy(update={"max_turns": definition.max_turns})
    return spec.model_copy(update=update)
